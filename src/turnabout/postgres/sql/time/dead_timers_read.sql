-- The number of dead entries in the indexes scheduled_due and lease_due read by this transaction.
create or replace function turnabout.dead_timers_read() returns bigint language sql volatile as $$
    select pg_stat_get_xact_tuples_returned('turnabout.scheduled_due'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.scheduled_due'::regclass)
        + pg_stat_get_xact_tuples_returned('turnabout.lease_due'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.lease_due'::regclass)
$$;
