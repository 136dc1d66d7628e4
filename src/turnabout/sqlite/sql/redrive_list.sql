-- Redrive list: the newest first.

-- name: all
-- Of all queues.
select * from turnabout_redrive order by id desc limit :most;

-- name: of_queue
-- Of one queue.
select * from turnabout_redrive where queue = :queue order by id desc limit :most;

-- name: of_namespace
-- Of a namespace, and of one queue if it is named.
select * from turnabout_redrive
where substr(queue, 1, max(instr(queue, '/'), 1) - 1) = :namespace
  and (:queue is null or queue = :queue)
order by id desc
limit :most;
