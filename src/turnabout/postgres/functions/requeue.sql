-- Give leased messages back, which the caller has locked. Each `delays` counts from now; 0 is ready
-- at once. In a FIFO queue a message that waits stays ready with a time in the future, so that it
-- keeps its place at the head. Wakes limited channels.
--
-- Those whose cancelling was asked for end instead; the answer is their ids, null if there are
-- none.
create or replace function turnabout.requeue(
    queue turnabout.queue, ids bigint[], delays bigint[], now_ms bigint, kind text
) returns bigint[]
language plpgsql as $$
declare
    v_back int;
    v_unwanted bigint[];
begin
    with back as (
        update turnabout.message m
        set status = case when t.delay > 0 and not queue.fifo then 1 else 0 end,
            at = now_ms + t.delay
        from unnest(ids, delays) t (id, delay)
        where m.id = t.id and not m.cancel_requested
        returning m.channel, m.limited
    ),
    woken as (
        insert into turnabout.wake (queue_id, channel)
        select distinct queue.id, b.channel from back b where b.limited
    )
    select count(*) into v_back from back;
    if v_back < cardinality(ids) then
        select array_agg(m.id) into v_unwanted from turnabout.message m
        where m.id = any (ids) and m.cancel_requested;
        perform turnabout.end_messages(queue, v_unwanted, 3, now_ms);
    end if;
    perform turnabout.lower_head_marks(queue.id, ids);
    if queue.events = 'all' then
        perform turnabout.note_events(queue, ids, kind, now_ms);
    end if;
    return v_unwanted;
end
$$;
