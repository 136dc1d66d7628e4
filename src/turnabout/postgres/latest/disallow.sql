-- Take a permission back, or do nothing if the role does not have it.
create or replace function turnabout.disallow(role_name text, kind text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    delete from turnabout.permission p
    where p.role_name = disallow.role_name and p.kind = disallow.kind;
    if found then perform turnabout.grant_to(disallow.role_name); end if;
end $$;
