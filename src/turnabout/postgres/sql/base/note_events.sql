-- Record an event for each of these messages, from their rows as they are now, in queues that want
-- all events. A lease that ran out is recorded when that is noticed.
create or replace function turnabout.note_events(
    queue turnabout.queue, ids bigint[], kind text, now_ms bigint
) returns void language sql as $$
    insert into turnabout.event (at, message_id, due_at, queue_id, attempt, kind, channel, note)
    select now_ms, m.id,
        case when kind in ('created', 'deferred', 'failed') and coalesce(m.at, 0) < 9000000000000000
            then greatest(coalesce(m.at, 0), now_ms)
        end,
        queue.id, m.attempt + (kind = 'noted')::int, kind, m.channel, m.note
    from turnabout.message m where m.id = any (ids) order by m.id
$$;
