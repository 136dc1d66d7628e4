-- Forget permissions of roles that are gone, also if another of the same name was made since: what
-- was granted to a role goes with it, and its successor shall not come into it by its name.
create or replace function turnabout.forget_strangers() returns void
language sql set search_path = pg_catalog, pg_temp as $$
    delete from turnabout.permission p where not exists (
        select from pg_namespace n cross join aclexplode(n.nspacl) a
        where n.nspname = 'turnabout' and a.grantee = case
            when p.role_name = 'public' then 0::oid
            else (select r.oid from pg_roles r where r.rolname = p.role_name)
        end
    )
$$;
