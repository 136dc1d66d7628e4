-- Messages that stand nowhere and are the caller's (sent just now, locked, or taken from where they
-- stood) get their place: ready, or scheduled if they are due later. In a FIFO queue what is due
-- later stands in the line as well, so that it keeps its place at the head. Wakes limited channels.
create or replace function turnabout.give_places(queue turnabout.queue, ids bigint[], now_ms bigint)
returns void language plpgsql as $$
declare
    v_rows boolean := queue.limited
        or exists (select from turnabout.channel c where c.queue_id = queue.id);
begin
    with placed as (
        select m.id, m.at, m.expires_at, m.priority, m.channel, queue.limited or v_rows and (
                select 1 from turnabout.channel c where c.queue_id = queue.id and c.name = m.channel
            ) is not null as limited
        from turnabout.message m where m.id = any (ids)
    ),
    scheduled as (
        insert into turnabout.scheduled (
            id, at, since, expires_at, queue_id, priority, limited, channel
        )
        select p.id, p.at, now_ms, p.expires_at, queue.id, p.priority, p.limited, p.channel
        from placed p where p.at > now_ms and not queue.fifo
    ),
    ready as (
        insert into turnabout.ready (id, at, expires_at, queue_id, priority, limited, channel)
        select p.id, case when p.at > now_ms then p.at end, p.expires_at, queue.id, p.priority,
            p.limited, p.channel
        from placed p where p.at is null or p.at <= now_ms or queue.fifo
    )
    insert into turnabout.wake (queue_id, channel)
    select distinct queue.id, p.channel from placed p where p.limited;
    perform turnabout.lower_head_marks(queue.id, ids);
end $$;
