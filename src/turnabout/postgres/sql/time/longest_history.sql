-- How long the queue that keeps history longest keeps it.
create or replace function turnabout.longest_history() returns bigint language sql stable as $$
    select coalesce(max(greatest(q.history_ms, q.history_failed_ms)), 0) from turnabout.queue q
$$;
