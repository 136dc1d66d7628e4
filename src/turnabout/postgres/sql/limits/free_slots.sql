-- How many more leases a channel may have: by its own limit or its queue's. In a FIFO queue a run
-- of messages, and none while any is out but those of the same receive: `taken`.
-- The slot of a message that has ended, or was given back, no longer counts.
create or replace function turnabout.free_slots(
    queue turnabout.queue, channel text, own_limit int, taken bigint[] default '{}'
) returns int language plpgsql stable as $$
declare
    v_limit int := coalesce(own_limit, queue.max_concurrency);
    v_leased int; v_own int;
begin
    if v_limit is null and not queue.fifo then return 2147483647; end if;
    select turnabout.uncounted_leases(queue, free_slots.channel) + count(*),
        count(*) filter (where s.id = any (taken))
    into v_leased, v_own
    from turnabout.slot s join turnabout.message m on m.id = s.id and m.attempt = s.attempt - 1
    where s.queue_id = queue.id and s.channel = free_slots.channel;
    if queue.fifo then
        return case when v_leased > v_own then 0 else least(v_limit, queue.fifo_run) - v_own end;
    end if;
    return v_limit - v_leased;
end $$;
