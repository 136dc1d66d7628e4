-- How many index entries of ready_line this transaction has read whose rows were dead: messages
-- that were taken, and that vacuum may not remove yet, because some old snapshot could see them.
create or replace function turnabout.dead_tuples_read() returns bigint
language sql volatile as $$
    select pg_stat_get_xact_tuples_returned('turnabout.ready_line'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.ready_line'::regclass)
$$;
