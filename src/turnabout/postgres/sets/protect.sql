-- Only roles with a permission may call a function; it then acts with the rights of its owner.
do $$
declare
    f record;
begin
    for f in
        select p.oid::regprocedure as name, p.proname = any (array[{names}]) as open
        from pg_proc p where p.pronamespace = '{schema}'::regnamespace
    loop
        execute format('revoke execute on function %s from public', f.name);
        if f.open then
            execute format(
                'alter function %s security definer set search_path = pg_catalog, pg_temp', f.name);
        end if;
    end loop;
end $$;
