-- Queue delete: the queue with its messages, channels and history.

-- name: sources
-- A queue whose dead-letter queue this is.
select name from turnabout_queue where dead_letter_id = :queue and id <> :queue limit 1;

-- name: messages
-- Its messages.
delete from turnabout_message where queue_id = :queue;

-- name: channels
-- Its channels.
delete from turnabout_channel where queue_id = :queue;

-- name: last
-- The place of the last row of its history.
select max(seq) from turnabout_history where queue_id = :queue;

-- name: history
-- Its history.
delete from turnabout_history where queue_id = :queue;

-- name: dedup
-- Its dedup entries.
delete from turnabout_dedup where queue_id = :queue;

-- name: events
-- Its events.
delete from turnabout_event where queue_id = :queue;

-- name: redrives
-- Redrives out of it have nothing left to do; their rows stay as a record.
update turnabout_redrive set state = 'cancelled', finished_at = :now, next_at = null
where queue_id = :queue and state = 'running';

-- name: queue
-- The queue.
delete from turnabout_queue where id = :queue;
