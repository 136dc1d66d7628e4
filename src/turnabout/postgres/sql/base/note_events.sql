-- What happened to these messages, as their rows are now. Only for queues that want all events.
-- One whose lease ran out is due when that is noticed.
create or replace function turnabout.note_events(
    queue turnabout.queue, ids bigint[], kind text, now_ms bigint
) returns void
language sql as $$
    insert into turnabout.event (at, message_id, due_at, queue_id, attempt, kind, channel, note)
    select now_ms, m.id,
        case when kind in ('created', 'deferred', 'failed') and coalesce(m.at, 0) < 9000000000000000
            then greatest(coalesce(m.at, 0), now_ms)
        end,
        queue.id, m.attempt + (kind = 'noted')::int, kind, m.channel, m.note
    from turnabout.message m
    where m.id = any (ids)
    order by m.id
$$;
