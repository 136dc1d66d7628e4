-- Give leased messages back: status and time are set by the caller's kind of ending. Each `delays`
-- counts from now; 0 is ready at once. In a FIFO queue a message that waits stays ready with a time
-- in the future, so that it keeps its place at the head. Wakes limited channels.
create or replace function penstock.come_back(
    queue penstock.queue, ids bigint[], delays bigint[], now_ms bigint
) returns void
language plpgsql as $$
#variable_conflict use_column
begin
    with back as (
        update penstock.message m
        set status = case when t.delay > 0 and not queue.fifo then 1 else 0 end,
            at = now_ms + t.delay
        from unnest(ids, delays) t (id, delay)
        where m.id = t.id
        returning m.channel, m.limited
    )
    insert into penstock.wake (queue_id, channel)
    select distinct queue.id, b.channel from back b where b.limited;
    perform penstock.lower_buoys(queue.id, ids);
end
$$;
