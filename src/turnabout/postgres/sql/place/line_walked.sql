-- How much of the index ready_line this transaction has walked, in dead entries: those whose rows
-- it had to look at (messages that were taken, and that vacuum may not remove yet, because some old
-- snapshot could see them), and pages, each as dear as two of them. (Entries that are known to be
-- dead are passed over, but their pages are walked until vacuum comes.)
-- A plain expression, which is put in where it is called: to start a function takes longer.
create or replace function turnabout.line_walked() returns bigint
language sql volatile as $$
    select pg_stat_get_xact_tuples_returned('turnabout.ready_line'::regclass)
        - pg_stat_get_xact_tuples_fetched('turnabout.ready_line'::regclass)
        + 2 * pg_stat_get_xact_blocks_fetched('turnabout.ready_line'::regclass)
$$;
