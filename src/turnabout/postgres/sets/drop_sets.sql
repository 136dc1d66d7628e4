-- Sets of functions that are called no longer, with those that were made for them.
do $$
declare
    gone text; old regprocedure;
begin
    for gone in select r.place from turnabout.revision r where {which} loop
        for old in select p.oid from pg_proc p where p.pronamespace = to_regnamespace(gone) loop
            execute format('drop function %s', old);
        end loop;
        execute format('drop schema if exists %I', gone);
        delete from turnabout.revision r where r.place = gone;
    end loop;
end $$;
