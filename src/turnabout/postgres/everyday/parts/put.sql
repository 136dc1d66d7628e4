-- Insert messages, under ids of the sequence. They have no place yet.
insert into turnabout.message (
    id, queue_id, channel, priority, at, sent_at, expires_at, payload, content_type, headers
) overriding system value
select {id}, m.queue_id, m.channel, m.priority, case when m.delay > 0 then m.now + m.delay end,
    m.now, m.now + m.ttl, m.payload, nullif(m.content_type, 'application/octet-stream'), m.headers
from {rows} m
