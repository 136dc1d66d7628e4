-- Move messages that are the caller's (locked, or taken out of their places) to another queue:
-- ready, with charges and expiry reset. They keep ids and attempts, so old receipts stay void.
-- `origins` holds their history, in the order of `ids`. Counts them as sent there; the caller
-- updates the counts of their old queue.
create or replace function turnabout.move_messages(
    target turnabout.queue, ids bigint[], origins text[], now_ms bigint
) returns void language plpgsql as $$
begin
    update turnabout.message m set queue_id = target.id,
        at = null, leased_at = null, expires_at = null, failures = 0, crashes = 0,
        delivered_before = m.attempt, cancel_requested = false, errors = null, last_error = null,
        origin = t.origin
    from unnest(ids, origins) t (id, origin) where m.id = t.id;
    perform turnabout.give_places(target, ids, now_ms);
    insert into turnabout.tally (queue_id, sent) values (target.id, cardinality(ids));
    if target.events = 'all' then
        perform turnabout.note_events(target, ids, 'created', now_ms);
    end if;
end $$;
