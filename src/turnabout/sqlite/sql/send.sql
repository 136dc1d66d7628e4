-- Send: all of the messages or none.

-- name: insert
-- Messages in order, as many as there are rows of values; the ids of one transaction follow one
-- another. `or fail`: none of the values can be refused, and so SQLite need not copy each page
-- before it is changed, to be able to undo the statement alone.
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type,
  expires_at, channel, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_alike
-- The same for messages that share all but channel and payload: what they share is bound once.
with sent (channel, payload) as (values (?, ?))
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type,
  expires_at, channel, payload
)
select ?, ?, ?, ?, ?, ?, ?, ?, ?, channel, payload from sent;

-- name: insert_to_one
-- The same for messages of one channel.
with sent (payload) as (values (?))
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type,
  expires_at, channel, payload
)
select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, payload from sent;
