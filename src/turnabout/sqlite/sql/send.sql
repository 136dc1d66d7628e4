-- Send: all of the messages or none.

-- name: insert, insert_alike, insert_to_one
-- Messages in order, as many as there are rows of values; the ids of one transaction follow one
-- another. `or fail`: none of the values can be refused, and so SQLite need not copy each page
-- before it is changed, to be able to undo the statement alone. Of messages that share all but
-- channel and payload, or all but the payload, what they share is bound once.
with sent (channel, payload) as (values (?, ?))  -- only: insert_alike
with sent (payload) as (values (?))  -- only: insert_to_one
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type,
  expires_at, channel, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);  -- only: insert
select ?, ?, ?, ?, ?, ?, ?, ?, ?, channel, payload from sent;  -- only: insert_alike
select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, payload from sent;  -- only: insert_to_one
