-- Events: written by verbs, for queues that want all events.

-- name: note
-- One event for each of these messages, as they are now. `due`: whether they have a due time, or a
-- lease; a message that waits for a person has none.
insert into turnabout_event (queue_id, at, message_id, due_at, attempt, kind, channel, note)
select message.queue_id, :now, message.id,
  iif(:due and message.at < :never, max(message.at, :now), null),
  message.attempt, :kind, message.channel, message.note
from json_each(:ids) as noted cross join turnabout_message as message on message.id = noted.value;
