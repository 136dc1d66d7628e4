-- Queue list: all queues with their settings, behind the name `after`.

-- name: entries, of_namespace
-- The rows by name, or those of a namespace, each with the name of its dead-letter queue.
select queue.*, target.name as dead_letter_name from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id
where queue.name > ifnull(:after, '')
  and substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) = :namespace  -- only: of_namespace
order by queue.name limit ifnull(:most, -1);
