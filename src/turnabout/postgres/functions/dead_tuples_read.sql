-- How many index entries of message_ready this transaction has read whose rows were dead: finished
-- messages that vacuum may not remove yet, because some old snapshot could still see them.
create or replace function turnabout.dead_tuples_read() returns bigint
language sql volatile as $$
    select pg_stat_get_xact_tuples_returned('turnabout.message_ready'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.message_ready'::regclass)
$$;
