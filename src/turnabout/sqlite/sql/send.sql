-- Send: all of the messages or none.

-- name: insert, insert_alike, insert_to_one
-- Insert messages in order, one per row of values. Their ids end with the last one that the queue
-- has given: `back` says how far they are from it. (A bound id would have to be returned by that
-- count, which takes 4 µs.)
-- `or fail`: none of the values can be refused, so SQLite need not copy each page before it changes
-- it, to be able to undo the statement alone. Messages that differ only in channel and payload, or
-- only in payload, have their common values bound once.
with sent (back, channel, payload) as (values (?, ?, ?))  -- only: insert_alike
with sent (back, payload) as (values (?, ?))  -- only: insert_to_one
insert or fail into turnabout_message (
  queue_id, status, limited, at, priority, sent_at, headers, content_type, expires_at,
  id, channel, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?,  -- only: insert
select ?, ?, ?, ?, ?, ?, ?, ?, ?,  -- only: insert_alike, insert_to_one
  (select last_id from turnabout_queue where id = ?) - ?, ?, ?)  -- only: insert
  (select last_id from turnabout_queue where id = ?) - back,  -- only: insert_alike, insert_to_one
  channel, payload from sent  -- only: insert_alike
  ?, payload from sent  -- only: insert_to_one
;
