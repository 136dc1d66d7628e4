-- A function's result cannot be changed in place, so the old set goes first; in one transaction.
do $$
declare
    old regprocedure;
begin
    for old in
        select p.oid from pg_proc p
        where p.pronamespace = to_regnamespace('{schema}') and p.prorettype <> 'trigger'::regtype
            and p.proname <> 'may_send'  -- which types ask
    loop
        execute format('drop function %s', old);
    end loop;
end $$;
