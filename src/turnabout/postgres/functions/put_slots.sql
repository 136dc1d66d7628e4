-- What is leased in the queue's limited channels has slots from now on; with limits of the queue's
-- own, all that is leased. Not for two callers at once: they would give a lease two.
create or replace function turnabout.put_slots(queue turnabout.queue) returns void
language plpgsql as $$
begin
    with put as (
        insert into turnabout.slot (id, queue_id, attempt, channel)
        select u.id, queue.id, u.attempt, u.channel
        from turnabout.leases_without_slots(queue.id) u
        where queue.limited or queue.queue_limited or exists (
            select from turnabout.channel c where c.queue_id = queue.id and c.name = u.channel
        )
        returning id
    )
    insert into turnabout.slot_change (queue_id, freed)
    select queue.id, -count(*) from put
    where queue.queue_limited
    having count(*) > 0;
end
$$;
