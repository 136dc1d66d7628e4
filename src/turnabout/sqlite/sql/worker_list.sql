-- The workers of a queue.

-- name: list
select worker, seen_at, state from turnabout_worker where queue = :queue and seen_at > :since
order by worker;
