-- The workers of a queue that have reported within a minute.
create or replace function turnabout.worker_list(
    queue text, now_ms turnabout.instant default null
) returns table (worker text, seen_at bigint, state text)
language plpgsql stable as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(worker_list.queue, false);
    v_now bigint := coalesce(worker_list.now_ms, turnabout.clock_ms());
begin
    return query
    select w.worker, w.seen_at, w.state from turnabout.worker w
    where w.queue = v_queue.name and w.seen_at > v_now - 60000 order by w.worker;
end $$;
