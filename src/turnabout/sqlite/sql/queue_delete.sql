-- Queue delete: the queue with its messages, channels and history.

-- name: sources
-- A queue whose dead-letter queue this is.
select name from turnabout_queue where dead_letter_id = :queue and id <> :queue limit 1;

-- name: messages
-- Its messages.
delete from turnabout_message where id in (select id from turnabout_place where queue_id = :queue);

-- name: last
-- The place of the last row of its history.
select max(seq) from turnabout_history where queue_id = :queue;

-- name: channels, history, dedup, events
-- Its channels, its history, its dedup entries, its events.
delete from turnabout_channel where queue_id = :queue;  -- only: channels
delete from turnabout_history where queue_id = :queue;  -- only: history
delete from turnabout_dedup where queue_id = :queue;  -- only: dedup
delete from turnabout_event where queue_id = :queue;  -- only: events

-- name: redrives
-- Redrives out of it have nothing left to do; their rows stay as a record.
update turnabout_redrive set state = 'cancelled', finished_at = :now, next_at = null
where queue_id = :queue and state = 'running';

-- name: queue
-- The queue.
delete from turnabout_queue where id = :queue;
