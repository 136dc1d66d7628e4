-- The inbox: messages to send, inserted by programs without the library.

-- name: any
-- Whether anything is there.
select 1 from turnabout_inbox limit 1;

-- name: next
-- The next rows in order; texts are judged later. Without a content type, text that is a JSON
-- object or list is JSON.
select rowid, queue, payload, coalesce(channel, '') as channel, coalesce(priority, 0) as priority,
  delay_seconds, due_at, headers, ttl_seconds, dedup_key, dedup_mode, dedup_window_seconds,
  dedup_scope,
  coalesce(content_type, case
    when typeof(payload) = 'blob' then 'application/octet-stream'
    when not json_valid(payload) then 'text/plain; charset=utf-8'
    when json_type(payload) in ('object', 'array') then 'application/json'
    else 'text/plain; charset=utf-8'
  end) as content_type
from turnabout_inbox order by rowid limit :most;

-- name: refuse
-- A row that cannot be sent, as it is.
insert into turnabout_inbox_refused (
  refused_at, reason, queue, payload, channel, priority, delay_seconds, headers, content_type,
  ttl_seconds, dedup_key, dedup_mode, dedup_window_seconds, dedup_scope, due_at, created_at
)
select :now, :reason, * from turnabout_inbox where rowid = :rowid;

-- name: done
-- All up to here were sent or refused.
delete from turnabout_inbox where rowid <= :rowid;
