-- Messages were leased, for queues that want all events.
create or replace function turnabout.note_leases(
    queue turnabout.queue, ids bigint[], now_ms bigint
) returns void
language sql as $$
    insert into turnabout.event (at, message_id, due_at, queue_id, attempt, kind, channel)
    select now_ms, m.id, l.until, queue.id, m.attempt + 1, 'leased', m.channel
    from turnabout.message m
    join turnabout.lease l on l.id = currval('turnabout.lease_number')
    where m.id = any (ids)
$$;
