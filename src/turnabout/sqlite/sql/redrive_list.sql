-- Redrive list: the newest first.

-- name: all, of_queue, of_namespace
-- Of all queues, of one, or of a namespace, and of one queue of it if it is named.
select * from turnabout_redrive
where queue = :queue  -- only: of_queue
where substr(queue, 1, max(instr(queue, '/'), 1) - 1) = :namespace  -- only: of_namespace
  and (:queue is null or queue = :queue)  -- only: of_namespace
order by id desc limit :most;
