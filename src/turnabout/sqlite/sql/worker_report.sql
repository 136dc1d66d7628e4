-- What workers say of themselves.

-- name: keep
-- At most a thousand of a queue.
insert into turnabout_worker (queue, worker, seen_at, state) select :queue, :worker, :now, :state
where (select count(*) from turnabout_worker where queue = :queue) < 1000
  or exists (select 1 from turnabout_worker where queue = :queue and worker = :worker)
on conflict (queue, worker) do update set seen_at = excluded.seen_at, state = excluded.state;

-- name: end
delete from turnabout_worker where queue = :queue and worker = :worker;

-- name: drop
delete from turnabout_worker where seen_at < :before;
