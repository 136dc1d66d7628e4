-- The transactions of others that write messages or counts, or are about to: prepared ones, too,
-- whose names begin with `-1/` (and were others before they were prepared).
create or replace function turnabout.writers() returns text[]
language sql volatile as $$
    select array_agg(distinct l.virtualtransaction) from pg_locks l
    where l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
        and l.relation in ('turnabout.ready'::regclass, 'turnabout.tally'::regclass)
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
        and l.pid is distinct from pg_backend_pid()
$$;
