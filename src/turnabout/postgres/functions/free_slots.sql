-- How many more leases a channel may have: its limit, its queue's, or one in a FIFO queue.
create or replace function turnabout.free_slots(
    queue turnabout.queue, channel text, own_limit int
) returns int
language plpgsql stable as $$
declare
    v_leased smallint := 2;  -- a variable: as a constant it would fit the timers' index as well
    v_limit int := case when queue.fifo then 1 else coalesce(own_limit, queue.max_concurrency) end;
begin
    if v_limit is null then
        return 2147483647;
    end if;
    return v_limit - (
        select count(*) from turnabout.message m
        where m.queue_id = queue.id and m.channel = free_slots.channel and m.limited
            and m.status = v_leased
    );
end
$$;
