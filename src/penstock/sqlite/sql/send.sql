-- Send: all of the messages or none.

-- name: insert
-- Messages in order, as many as there are rows of values; the ids of one transaction follow one
-- another.
insert into message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type, channel, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_alike
-- The same for messages that share all but channel and payload: what they share is bound once.
with sent (channel, payload) as (values (?, ?))
insert into message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type, channel, payload
)
select ?, ?, ?, ?, ?, ?, ?, ?, channel, payload from sent;

-- name: last_id
-- The id of the message that was inserted last.
select last_insert_rowid();
