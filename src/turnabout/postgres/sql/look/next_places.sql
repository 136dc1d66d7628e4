-- Where the next messages of a queue stand, by id, after `after_id`; of one state or channel if
-- named. `at`: when it is due, or its lease ends; `attempt`, `leased_at`: of a leased one.
create or replace function turnabout.next_places(
    queue turnabout.queue, most int, only_state text, only_channel text, after_id bigint,
    now_ms bigint
) returns table (id bigint, state text, attempt int, at bigint, leased_at bigint)
language plpgsql stable as $$
declare
    v_window int := case when only_state is null then 5000 else 1000 end + 2 * most;
    v_found int; v_until bigint;
begin
    -- 1. Commonly they stand close together: look at the next messages of all queues, so many of
    --    them. That takes no longer where more is waiting.
    return query
    select m.id, p.state, p.attempt, p.at, p.leased_at from (
        select n.* from turnabout.message n where n.id > next_places.after_id order by n.id
        limit v_window
    ) m
    left join turnabout.leased_messages(array[queue.id]) l on l.id = m.id
    cross join lateral (
        select case when w.at > now_ms then 'scheduled' else 'ready' end as state,
            null::int as attempt, w.at, null::bigint as leased_at
        from ({{waiting m = m}}) w
        union all
        select 'leased', l.attempt, l.until, l.leased_at
        where l.id is not null
    ) p
    where m.queue_id = queue.id and (only_channel is null or m.channel = only_channel)
        and (only_state is null or p.state = only_state)
    order by m.id limit most;
    get diagnostics v_found = row_count;

    -- 2. Else search all that the queue has behind these, and sort that.
    if v_found < most then
        select m.id into v_until from turnabout.message m where m.id > next_places.after_id
        order by m.id offset v_window - 1 limit 1;
    end if;
    if v_until is not null then
        return query
        select u.id, u.state, u.attempt, u.at, u.leased_at from (
            select r.id, case when r.at > now_ms then 'scheduled' else 'ready' end as state,
                null::int as attempt, r.at, null::bigint as leased_at
            from turnabout.ready r
            where r.queue_id = queue.id and r.id > v_until and coalesce(only_state, '') <> 'leased'
                and (coalesce(only_state, '') <> 'scheduled' or queue.fifo)
                and (only_channel is null or r.channel = only_channel)
            union all
            select s.id, case when s.at > now_ms then 'scheduled' else 'ready' end, null, s.at, null
            from turnabout.scheduled s
            where s.queue_id = queue.id and s.id > v_until and coalesce(only_state, '') <> 'leased'
                and (only_channel is null or s.channel = only_channel)
            union all
            select l.id, 'leased', l.attempt, l.until, l.leased_at
            from turnabout.leased_messages(array[queue.id]) l
            where l.id > v_until and (only_channel is null or l.channel = only_channel)
        ) u
        where only_state is null or u.state = only_state order by u.id limit most - v_found;
    end if;
end $$;
