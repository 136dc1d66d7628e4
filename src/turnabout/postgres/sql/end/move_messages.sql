-- Move messages that are the caller's (locked, or taken from where they stood) to another queue:
-- ready, their charges and ends forgotten. Their ids and attempts stay, so old receipts stay void.
-- `origins` tells their story, in the order of `ids`. Counts them as sent there; what they are to
-- their old queue is the caller's to say.
create or replace function turnabout.move_messages(
    target turnabout.queue, ids bigint[], origins text[], now_ms bigint
) returns void
language plpgsql as $$
begin
    update turnabout.message m
    set queue_id = target.id,
        at = null,
        leased_at = null,
        expires_at = null,
        failures = 0,
        crashes = 0,
        delivered_before = m.attempt,
        cancel_requested = false,
        errors = null,
        last_error = null,
        origin = t.origin
    from unnest(ids, origins) t (id, origin)
    where m.id = t.id;
    perform turnabout.give_places(target, ids, now_ms);
    insert into turnabout.tally (queue_id, sent) values (target.id, cardinality(ids));
    if target.events = 'all' then
        perform turnabout.note_events(target, ids, 'created', now_ms);
    end if;
end
$$;
