-- Insert messages. They have no place yet.
insert into turnabout.message (
    queue_id, channel, priority, at, sent_at, expires_at, payload, content_type, headers
)
select m.queue_id, m.channel, m.priority, case when m.delay > 0 then m.now + m.delay end, m.now,
    m.now + m.ttl, m.payload, nullif(m.content_type, 'application/octet-stream'), m.headers
from {rows} m
