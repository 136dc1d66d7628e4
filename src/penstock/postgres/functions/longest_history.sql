-- How long the queue that keeps history longest keeps it.
create or replace function penstock.longest_history() returns bigint
language sql stable as $$
    select coalesce(max(greatest(q.history_ms, q.history_failed_ms)), 0) from penstock.queue q
$$;
