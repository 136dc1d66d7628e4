-- How a message ends: a row of history, or a move to the dead-letter queue.

-- name: keep, keep_held, keep_one_held
-- A row of history for each of these messages of the queue, in the order given; for each that is
-- leased at this attempt, and not limited. (`or fail` as in send.sql.)
insert or fail into turnabout_history (
  queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at, leased_at,
  finished_at, error, note
)
select message.queue_id, queue.done + queue.dead + queue.cancelled + ended.key + 1, message.id,
  message.channel, :outcome, message.attempt, message.failures, message.crashes, message.sent_at,
  message.leased_at, :now, message.last_error, message.note
from turnabout_queue as queue
cross join json_each(:ids) as ended  -- only: keep, keep_held
cross join (select 0 as key, :ids as value) as ended  -- only: keep_one_held
cross join turnabout_message as message
  on message.id = ended.value and message.queue_id = queue.id
    and message.status = 2 and message.attempt = :attempt  -- only: keep_held, keep_one_held
    and message.limited = 0  -- only: keep_held, keep_one_held
where queue.id = :queue;

-- name: keep_payloads
-- Copy the payloads and headers of these messages to their rows of history.
update turnabout_history as history
set payload = message.payload, content_type = message.content_type, headers = message.headers
from turnabout_message as message
where history.queue_id = :queue and history.seq > :after and message.id = history.id;

-- name: keep_result
-- Keep the result of an ack in history.
update turnabout_history set result = ?, result_type = ? where queue_id = ? and seq = ?;

-- name: drop
-- These messages have ended.
delete from turnabout_message where id in (?);

-- name: drop_held
-- The same for those that are leased at this attempt, and not limited. They are found by their ids:
-- `not indexed`, or SQLite takes a detour through `turnabout_message_timer`.
delete from turnabout_message not indexed
where id in (?) and queue_id = ? and status = 2 and attempt = ? and limited = 0;

-- name: keep_dead
-- A row of history for a message that died, with the counts of its last attempt.
insert into turnabout_history (
  queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at, leased_at,
  finished_at, error, note
)
select queue_id, ?, id, channel, 'dead', attempt, ?, ?, sent_at, leased_at, ?, ?, note
from turnabout_message where id = ?;

-- name: block
-- A message of a FIFO queue that has no attempts left: it waits at the head until a person comes.
update turnabout_message
set status = 0, at = ?, failures = ?, crashes = ?, errors = ?, last_error = ?
where id = ?;

-- name: waiting
-- Waiting messages of a channel: behind one that dies, or before the channel is deleted.
select id, channel, failures, crashes, errors, last_error, origin from turnabout_message
where queue_id = :queue and status = 0 and limited = 0 and channel = :channel
union all
select id, channel, failures, crashes, errors, last_error, origin from turnabout_message
where queue_id = :queue and status = 0 and limited = 1 and channel = :channel
union all
select id, channel, failures, crashes, errors, last_error, origin from turnabout_message
where queue_id = :queue and status = 1 and channel = :channel;

-- name: move
-- A message goes to another queue: ready, uncharged, without an end, with its error history.
update turnabout_message
set queue_id = ?, limited = ?, origin = ?, status = 0, at = 0, failures = 0, crashes = 0,
  delivered_before = attempt, leased_at = null, errors = null, last_error = null,
  expires_at = null, cancel_requested = 0
where id = ?;
