-- Let a role produce, consume or operate. Remembered: it holds for the sets of later installs, too.
create or replace function turnabout.allow(role_name text, kind text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if allow.kind is null or allow.kind not in ('produce', 'consume', 'operate') then
        raise exception 'a permission is one of produce, consume, operate, not %',
            coalesce(quote_literal(allow.kind), 'null') using errcode = '22023';
    end if;
    if allow.role_name is distinct from 'public'
        and not exists (select from pg_roles r where r.rolname = allow.role_name)
    then
        raise exception 'there is no role %: make it (create role …)',
            coalesce(quote_literal(allow.role_name), 'null') using errcode = '22023';
    end if;
    if exists (
        select from pg_namespace n join pg_roles r on r.oid = n.nspowner
        where n.nspname = 'turnabout' and r.rolname = allow.role_name
    ) then
        raise exception 'the role % owns the schema turnabout: it may do everything',
            quote_literal(allow.role_name) using errcode = '22023';
    end if;
    perform turnabout.forget_strangers();
    insert into turnabout.permission (role_name, kind) values (allow.role_name, allow.kind)
    on conflict do nothing;
    perform turnabout.grant_to(allow.role_name);
end
$$;
