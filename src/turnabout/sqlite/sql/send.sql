-- Send: all of the messages or none.

-- name: insert, insert_alike, insert_to_one
-- Insert messages in order, one per row of values. (`or fail`: none of them can be refused, so
-- SQLite need not copy each page before it changes it, to be able to undo the statement alone.)
-- Messages that differ only in channel and payload, or only in payload, have their common values
-- bound once.
with sent (id, channel, payload) as (values (?, ?, ?))  -- only: insert_alike
with sent (id, payload) as (values (?, ?))  -- only: insert_to_one
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type, expires_at,
  id, channel, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)  -- only: insert
select ?, ?, ?, ?, ?, ?, ?, ?, ?,  -- only: insert_alike, insert_to_one
  id, channel, payload from sent  -- only: insert_alike
  id, ?, payload from sent  -- only: insert_to_one
;
