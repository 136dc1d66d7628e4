-- Endings: how messages ended.

-- name: unfinished
-- Those that have not ended in this queue.
select id from turnabout_message not indexed
where id in (select value from json_each(:ids)) and queue_id = :queue;

-- name: ended
-- Their rows of history in this queue, in the order of asking: an id can end here twice, and the
-- latest one counts.
select history.id, outcome, finished_at, attempt, failures, crashes, error, result, result_type,
  note
from json_each(:ids) as asked cross join turnabout_history as history
  on history.queue_id = :queue and history.seq = (
    select max(seq) from turnabout_history indexed by turnabout_history_id
    where id = asked.value and queue_id = :queue
  )
order by asked.key;

-- name: taken
-- How many ids queues have taken, and those that this one has not given yet: after one, up to one.
select ids_taken, last_id, ids_until from turnabout_clock as clock, turnabout_given
where clock.id = 1 and queue_id = :queue;
