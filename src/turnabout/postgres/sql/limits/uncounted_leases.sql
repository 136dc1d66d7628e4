-- While the queue is changing: the number of leases of a channel (null: all) without a slot.
create or replace function turnabout.uncounted_leases(queue turnabout.queue, channel text)
returns int language plpgsql stable as $$
begin
    if not exists (select from turnabout.recent_change c where c.queue = queue.name) then
        return 0;
    end if;
    return (
        select count(*) from turnabout.leases_without_slots(queue.id) u
        where uncounted_leases.channel is null or u.channel = uncounted_leases.channel
    );
end $$;
