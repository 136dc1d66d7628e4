-- Like dead_tuples_read, for the index message_timer.
create or replace function turnabout.dead_timers_read() returns bigint
language sql volatile as $$
    select pg_stat_get_xact_tuples_returned('turnabout.message_timer'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.message_timer'::regclass)
$$;
