-- Dedup entries. What they mean is in docs/design/life.md.

-- name: find
-- The entries of these scopes and keys, and their messages, unless those left (also if redriven).
select entry.scope, entry.key, entry.message_id, entry.until_ms, message.status,
  message.attempt, message.channel
from json_each(:keys) as asked cross join turnabout_dedup as entry on entry.queue_id = :queue
  and entry.scope = asked.value ->> 0 and entry.key = asked.value ->> 1
left join turnabout_message as message not indexed
  on message.id = entry.message_id and message.queue_id = :queue and message.origin is null
  and (message.status = 2 or message.expires_at is null or message.expires_at > :now);

-- name: point
-- The entry points at this message.
insert into turnabout_dedup (queue_id, scope, key, message_id, until_ms) values (?, ?, ?, ?, ?)
on conflict (queue_id, scope, key) do update
set message_id = excluded.message_id, until_ms = excluded.until_ms;

-- name: replace
-- A waiting message gets new content. One that waits for a person goes on doing so.
update turnabout_message set payload = ?, content_type = ?, headers = ?, priority = ?, status = ?,
  at = iif(at = ?, at, ?), expires_at = ?
where id = ?;
