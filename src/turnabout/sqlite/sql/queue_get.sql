-- Queue get: one queue with its settings.

-- name: entry
-- The row, and the name of its dead-letter queue.
select queue.*, target.name as dead_letter_name from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id where queue.name = :name;
