-- Queue list: all queues with their settings.

-- name: entries
-- The rows by name, each with the name of its dead-letter queue.
select queue.*, target.name as dead_letter_name
from queue
left join queue as target on target.id = queue.dead_letter_id
order by queue.name;
