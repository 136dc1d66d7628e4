-- Ack: done. How a message ends is in finish.sql.

-- name: held
-- How many of these messages are leased at this attempt, and how many of them are limited. They are
-- found by their ids: `not indexed`, or SQLite takes a detour through `message_of_queue`.
select count(*) as held, count(*) filter (where limited = 1) as limited
from message not indexed
where id in (select value from json_each(:ids))
  and queue_id = :queue and status = 2 and attempt = :attempt;
