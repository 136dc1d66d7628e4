-- How much of the index ready_line this transaction has walked, in dead entries: those whose rows
-- it had to look at (messages that were taken, and that vacuum may not remove yet, because some old
-- snapshot could see them), and pages, each as dear as two of them. (Entries that are known to be
-- dead are passed over, but their pages are walked until vacuum comes.)
create or replace function turnabout.line_walked() returns bigint
language sql volatile as $$
    select pg_stat_get_xact_tuples_returned(i.line) - pg_stat_get_xact_tuples_fetched(i.line)
        + 2 * pg_stat_get_xact_blocks_fetched(i.line)
    from (values ('turnabout.ready_line'::regclass)) i (line)
$$;
