-- Keep what a worker says of itself, as JSON; null: it has ended. A thousand workers of a queue are
-- kept at most, and nothing that is an hour old.
create or replace function turnabout.worker_report(
    queue text, worker text, state text, now_ms turnabout.instant default null
) returns void language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(worker_report.queue, false);
    v_now bigint := coalesce(worker_report.now_ms, turnabout.clock_ms());
begin
    if worker_report.state is null then
        delete from turnabout.worker w
        where w.queue = v_queue.name and w.worker = worker_report.worker;
        return;
    end if;
    insert into turnabout.worker (queue, worker, seen_at, state)
    select v_queue.name, worker_report.worker, v_now, worker_report.state
    where (select count(*) from turnabout.worker w where w.queue = v_queue.name) < 1000
        or exists (
            select from turnabout.worker w
            where w.queue = v_queue.name and w.worker = worker_report.worker
        )
    on conflict (queue, worker) do update set seen_at = excluded.seen_at, state = excluded.state;
    delete from turnabout.worker w where w.ctid = any (array(
        select o.ctid from turnabout.worker o where o.seen_at < v_now - 3600000 order by o.seen_at
        limit 100 for update skip locked
    ));
end $$;
