-- Samples of queues.

-- name: keep
insert into turnabout_sample (
  queue, step_ms, at, ready, leased, oldest_ms, sent, done, dead, shares
) values (:queue, :step_ms, :at, :ready, :leased, :oldest_ms, :sent, :done, :dead, :shares)
on conflict do nothing;

-- name: drop
delete from turnabout_sample where step_ms = :step and at < :before;

-- name: list
select queue, step_ms, at, ready, leased, oldest_ms, sent, done, dead, shares from turnabout_sample
where queue = :queue and step_ms = :step and at >= :since order by at;
