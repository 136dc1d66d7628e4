-- Queue list: all queues with their settings.

-- name: entries
-- The rows by name, each with the name of its dead-letter queue.
select queue.*, target.name as dead_letter_name
from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id
order by queue.name;

-- name: of_namespace
-- Those of a namespace.
select queue.*, target.name as dead_letter_name
from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id
where substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) = :namespace
order by queue.name;
