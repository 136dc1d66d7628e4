-- How many more leases a channel may have: by its own limit, its queue's, or one in a FIFO queue.
-- The slot of a message that has ended, or was given back, no longer counts.
create or replace function turnabout.free_slots(
    queue turnabout.queue, channel text, own_limit int
) returns int
language plpgsql stable as $$
declare
    v_limit int := case when queue.fifo then 1 else coalesce(own_limit, queue.max_concurrency) end;
begin
    if v_limit is null then
        return 2147483647;
    end if;
    return v_limit - turnabout.uncounted_leases(queue, channel) - (
        select count(*)
        from turnabout.slot s
        join turnabout.message m on m.id = s.id and m.attempt = s.attempt - 1
        where s.queue_id = queue.id and s.channel = free_slots.channel
    );
end
$$;
