-- Send: all of the messages or none.

-- name: insert, insert_alike, insert_to_one
-- Insert messages in order, one per row of values; the ids of one transaction are consecutive.
-- `or fail`: none of the values can be refused, so SQLite need not copy each page before it changes
-- it, to be able to undo the statement alone. Messages that differ only in channel and payload, or
-- only in payload, have their common values bound once.
with sent (channel, payload) as (values (?, ?))  -- only: insert_alike
with sent (payload) as (values (?))  -- only: insert_to_one
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type,
  expires_at, channel, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);  -- only: insert
select ?, ?, ?, ?, ?, ?, ?, ?, ?, channel, payload from sent;  -- only: insert_alike
select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, payload from sent;  -- only: insert_to_one
