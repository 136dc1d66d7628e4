-- Send: all of the messages or none.

-- name: insert
-- One message; the ids of one transaction follow one another.
insert into message (
  queue_id, status, limited, at, channel, priority, sent_at, headers, content_type, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: last_id
-- The id of the message that was inserted last.
select last_insert_rowid();
