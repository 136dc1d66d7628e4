-- Events of a queue after a cursor, in the order of (transaction, number). Nothing at or above the
-- oldest running transaction is shown, so that a late commit never comes behind a reader's cursor.
-- Each row has its cursor. Without a cursor: one row without an event, with the cursor of now.
create or replace function turnabout.events(
    queue text, after_xid xid8 default null, after_seq bigint default null, most int default 100
) returns table (
    place text, kind text, at bigint, id bigint, channel text, attempt int, due_at bigint, note text
) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(events.queue, false);
    v_before xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
    if after_xid is null then
        place := v_before::text || '.0';
        return next;
        return;
    end if;
    return query
    select e.xid::text || '.' || e.seq, e.kind, e.at, e.message_id, e.channel::text, e.attempt,
        e.due_at, e.note
    from turnabout.event e
    where e.queue_id = v_queue.id and (e.xid, e.seq) > (after_xid, after_seq) and e.xid < v_before
    order by e.xid, e.seq limit events.most;
end $$;
