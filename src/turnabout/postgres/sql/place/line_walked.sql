-- The cost of walking the index ready_line in this transaction, in dead entries: those whose rows
-- had to be read (messages that were taken, but that an old snapshot may still see, so vacuum keeps
-- them), and pages, each as dear as two entries. (Entries known to be dead are skipped, but their
-- pages are read until vacuum comes.) A plain expression, inlined where it is called: starting a
-- function would take longer.
create or replace function turnabout.line_walked() returns bigint language sql volatile as $$
    select pg_stat_get_xact_tuples_returned('turnabout.ready_line'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.ready_line'::regclass)
        + 2 * pg_stat_get_xact_blocks_fetched('turnabout.ready_line'::regclass)
$$;
