-- Apply a queue's settings to what was written under older ones: leases count against its limits,
-- their acks keep history and events, delayed messages of limited channels are marked. False: a
-- lease is locked by another transaction, so call it again. Two callers at once would give a lease
-- two slots.
create or replace function turnabout.apply_settings(queue turnabout.queue) returns boolean
language plpgsql as $$
declare
    v_plain bigint[] := array(
        select l.id from turnabout.lease l where l.queue_id = queue.id and l.plain_queue is not null
    );
begin
    update turnabout.lease l set plain_queue = null where l.ctid = any (array(
        select o.ctid from turnabout.lease o where o.id = any (v_plain) for update skip locked
    ));
    perform turnabout.mark_scheduled_as_limited(queue.id);
    insert into turnabout.slot (id, queue_id, attempt, channel)
    select u.id, queue.id, u.attempt, u.channel from turnabout.leases_without_slots(queue.id) u
    where queue.limited or queue.queue_limited or exists (
        select from turnabout.channel c where c.queue_id = queue.id and c.name = u.channel
    );
    -- Also others have put slots, without a note where they knew of no limit of the queue's own.
    insert into turnabout.slot_change (queue_id) select queue.id where queue.queue_limited;
    return not exists (
        select from turnabout.lease l where l.id = any (v_plain) and l.plain_queue is not null
    );
end $$;
