-- How a message ends: a row of history, or a move to the dead-letter queue.

-- name: keep
-- A row of history for each of these messages, in the order given. (`json_each` has a column `id`,
-- too: name the table.)
insert into history (
  queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at, leased_at,
  finished_at, error
)
select message.queue_id, :after + ended.key + 1, message.id, message.channel, :outcome,
  message.attempt, message.failures, message.crashes, message.sent_at, message.leased_at,
  :now, message.last_error
from json_each(:ids) as ended
cross join message on message.id = ended.value;

-- name: drop
-- These messages have ended.
delete from message where id in (select value from json_each(:ids));

-- name: keep_dead
-- A row of history for a message that died, with the counts of its last attempt.
insert into history (
  queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at, leased_at,
  finished_at, error
)
select queue_id, ?, id, channel, 'dead', attempt, ?, ?, sent_at, leased_at, ?, ?
from message
where id = ?;

-- name: move
-- A dead message goes to the dead-letter queue: ready, uncharged, with its story.
update message
set queue_id = ?, limited = ?, origin = ?, status = 0, at = 0, failures = 0, crashes = 0,
  leased_at = null, first_error = null, last_error = null
where id = ?;
