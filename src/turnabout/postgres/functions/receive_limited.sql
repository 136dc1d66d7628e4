-- Take from limited channels whose rows the caller has locked: up to `takes` from each and `most`
-- in all, as far as concurrency, rate and order allow. Then put to sleep the rows that have nothing
-- to give, and drop those that nothing remembers.
--
-- The lock came in an earlier statement: what it protects is read here, as of now. A row is put to
-- sleep only if nothing could be taken for a reason that will wake it: an end of a lease, a
-- send, a point in time. If in doubt it stays awake.
create or replace function turnabout.receive_limited(
    queue turnabout.queue,
    channels text[],
    takes int[],
    most int,
    now_ms bigint,
    until_ms bigint,
    bare boolean default false
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_now_us bigint := now_ms * 1000;
    v_ids bigint[];
    v_names text[];
begin
    -- 1. Messages from before the limits come first: they are the oldest.
    select array_agg(n.name) into v_names
    from unnest(channels) n (name)
    where (
        select 1 from turnabout.message m
        where m.queue_id = queue.id and m.channel = n.name and m.status = 0 and not m.limited
            and m.id + 0 > 0
        limit 1
    ) is not null;
    if v_names is not null then
        perform turnabout.move_over(queue.id, v_names, 100 + most);
    end if;

    -- 2. What each may give now, and its heads. A slot is a live lease: they are counted, not kept.
    select array_agg(picked.id), array_agg(picked.name) into v_ids, v_names
    from (
        select head.id, a.name
        from (
            select c.name,
                case when coalesce(c.paused, false) then 0 else least(
                    t.take,
                    turnabout.free_slots(queue, c.name, c.max_concurrency),
                    turnabout.free_tokens(
                        v_now_us, c.rate_tat_us,
                        case when c.rate_count is null then queue.rate_interval_us
                            else c.rate_interval_us end,
                        case when c.rate_count is null then queue.rate_burst else c.rate_burst end)
                ) end as allowance
            from unnest(channels, takes) t (name, take)
            cross join lateral (
                select r.* from turnabout.channel r
                where r.queue_id = queue.id and r.name = t.name
                offset 0
            ) c
        ) a
        cross join lateral (
            -- The head is chosen first and locked then: of a FIFO queue it is this one or none.
            select r.id from turnabout.message r
            where r.status = 0 and r.id = any (array(
                select h.id
                from (
                    select m.id, m.at from turnabout.message m
                    where m.queue_id = queue.id and m.channel = a.name and m.limited
                        and m.status = 0
                        and (m.expires_at is null or m.expires_at > now_ms)
                    order by m.priority, m.id
                    limit greatest(0, case when queue.fifo then least(a.allowance, 1)
                        else a.allowance end)
                ) h
                where h.at <= now_ms
            ))
            for update skip locked
        ) head
        limit most
    ) picked;

    -- 3. Lease them.
    if v_ids is not null then
        return query
        update turnabout.message m
        set status = 2, attempt = m.attempt + 1, at = until_ms, leased_at = now_ms
        where m.id = any (v_ids)
        returning m.id, m.attempt, m.channel::text, m.priority,
            case when not bare then m.payload end, m.content_type,
            case when not bare then m.headers end, case when not bare then m.state end,
            m.failures, m.crashes, m.sent_at, m.origin, m.at, until_ms - now_ms;
    end if;

    perform turnabout.settle_channels(queue, channels, v_names, now_ms);
end
$$;
