-- End the leases of these messages, of those channels: free their slots, leave a note for a queue
-- with limits of its own, and let limited channels look again. (Slots are found one by one: a join
-- can be planned by the queue alone.)
create or replace function turnabout.give_back_slots(
    queue turnabout.queue, ids bigint[], channels text[]
) returns void language plpgsql as $$  -- plans: pinned
begin
    if ids is null or not queue.limited and not queue.queue_limited
        and not exists (select from turnabout.channel c where c.queue_id = queue.id)
    then
        return;
    end if;
    with gone as (
        delete from turnabout.slot s where s.ctid = any (array(
            select e.ctid from unnest(ids, channels) t (id, channel)
            cross join lateral (
                select s.ctid from turnabout.slot s
                where s.queue_id = queue.id and s.channel = t.channel and s.id = t.id
                for update skip locked
            ) e
        ))
        returning s.id
    )
    insert into turnabout.slot_change (queue_id, freed) select queue.id, count(*) from gone
    where queue.queue_limited
    having count(*) > 0;
    insert into turnabout.wake (queue_id, channel) select queue.id, t.channel
    from (select distinct c.channel from unnest(channels) c (channel)) t
    where queue.limited or exists (
        select from turnabout.channel c where c.queue_id = queue.id and c.name = t.channel
    );
end $$;
