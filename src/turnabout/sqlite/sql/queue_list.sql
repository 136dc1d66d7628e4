-- Queue list: all queues with their settings, behind the name `after`.

-- name: entries
-- The rows by name, each with the name of its dead-letter queue.
select queue.*, target.name as dead_letter_name
from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id
where queue.name > ifnull(:after, '')
order by queue.name
limit ifnull(:most, -1);

-- name: of_namespace
-- Those of a namespace.
select queue.*, target.name as dead_letter_name
from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id
where substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) = :namespace
  and queue.name > ifnull(:after, '')
order by queue.name
limit ifnull(:most, -1);
