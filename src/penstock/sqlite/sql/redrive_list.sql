-- Redrive list: the newest first.

-- name: all
-- Of all queues.
select * from redrive order by id desc limit :most;

-- name: of_queue
-- Of one queue.
select * from redrive where queue = :queue order by id desc limit :most;
