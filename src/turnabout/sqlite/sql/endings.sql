-- Endings: how messages ended.

-- name: unfinished
-- Those that have not ended in this queue.
select id from turnabout_message not indexed
where id in (select value from json_each(:ids)) and queue_id = :queue;

-- name: ended
-- Their rows of history in this queue: an id can end here twice, and the latest one counts.
select history.seq, history.id, outcome, finished_at, attempt, failures, crashes, error, result,
  result_type
from json_each(:ids) as asked
cross join turnabout_history as history indexed by turnabout_history_id
  on history.id = asked.value and history.queue_id = :queue;

-- name: last_id
-- The highest id that was ever given out.
select seq from sqlite_sequence where name = 'turnabout_message';
