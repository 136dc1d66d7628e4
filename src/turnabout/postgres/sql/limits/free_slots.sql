-- How many more leases a channel may have: by its own limit or its queue's. In a FIFO queue a run
-- of messages, and none while any is out.
-- The slot of a message that has ended, or was given back, no longer counts.
create or replace function turnabout.free_slots(
    queue turnabout.queue, channel text, own_limit int
) returns int
language plpgsql stable as $$
declare
    v_limit int := coalesce(own_limit, queue.max_concurrency);
    v_leased int;
begin
    if v_limit is null and not queue.fifo then
        return 2147483647;
    end if;
    v_leased := turnabout.uncounted_leases(queue, channel) + (
        select count(*)
        from turnabout.slot s
        join turnabout.message m on m.id = s.id and m.attempt = s.attempt - 1
        where s.queue_id = queue.id and s.channel = free_slots.channel
    );
    if queue.fifo then
        return case when v_leased > 0 then 0 else least(v_limit, queue.fifo_run) end;
    end if;
    return v_limit - v_leased;
end
$$;
