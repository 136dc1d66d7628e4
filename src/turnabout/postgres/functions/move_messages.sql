-- Move messages that the caller has locked to another queue: ready, their charges and ends
-- forgotten. Their ids and attempts stay, so old receipts stay void. `origins` tells their story,
-- in the order of `ids`. Counts them as sent there; what they are to their old queue is the
-- caller's to say.
create or replace function turnabout.move_messages(
    target turnabout.queue, ids bigint[], origins text[], now_ms bigint
) returns void
language plpgsql as $$
begin
    with moved as (
        update turnabout.message m
        set queue_id = target.id,
            status = 0,
            at = now_ms,
            leased_at = null,
            expires_at = null,
            failures = 0,
            crashes = 0,
            cancel_requested = false,
            first_error = null,
            last_error = null,
            limited = target.limited or (
                select 1 from turnabout.channel c
                where c.queue_id = target.id and c.name = m.channel
            ) is not null,
            origin = t.origin
        from unnest(ids, origins) t (id, origin)
        where m.id = t.id
        returning m.channel, m.limited
    )
    insert into turnabout.wake (queue_id, channel)
    select distinct target.id, m.channel from moved m where m.limited;
    insert into turnabout.tally (queue_id, sent) values (target.id, cardinality(ids));
    perform turnabout.lower_head_marks(target.id, ids);
    if target.events = 'all' then
        perform turnabout.note_events(target, ids, 'created', now_ms);
    end if;
end
$$;
