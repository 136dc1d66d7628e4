-- Who is served, and who waits: what each channel got of the service, and its fair share of that.
-- The first row, without a channel, has the sums.
--
-- The service is what was handed out in the last `span_ms`, or since the 10,000th newest row of
-- history: deliveries of what has ended, and what is leased. That time is cut into 30 slices. In
-- each, service is shared out max-min by weight: a channel that waited all through the slice could
-- have had more, any other asked for what it got. `got` and `fair` are of the slices that a
-- channel's oldest ready message has waited through.
create or replace function turnabout.fairness(
    queue text, span_ms bigint, sort text, find text, beyond int, most int,
    now_ms turnabout.instant default null
) returns table (
    channel text, ready bigint, leased bigint, oldest_ready_ms bigint, blocked text, weight int,
    served bigint, busy_ms bigint, got bigint, fair float8, starved bigint, waiting bigint,
    channels bigint, window_ms bigint, by_leases boolean
) language plpgsql set work_mem = '64MB' as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(fairness.queue);
    v_now bigint := coalesce(fairness.now_ms, turnabout.clock_ms());
    v_from bigint := greatest(v_now - fairness.span_ms, (
        select h.finished_at from turnabout.history h
        where h.queue_id = v_queue.id and h.finished_at > v_now - fairness.span_ms
            and h.finished_at <= v_now
        order by h.finished_at desc, h.id desc offset 10000 limit 1
    ));
    v_slice bigint := greatest(1, (v_now - v_from) / 30);
begin
    perform turnabout.require_places();
    return query
    with done as (
        select h.channel::text, least(29, (v_now - h.finished_at) / v_slice) as slice,
            sum(h.attempt)::int as served,
            coalesce(sum(h.finished_at - h.leased_at), 0)::bigint as busy_ms
        from turnabout.history h
        where h.queue_id = v_queue.id and h.finished_at > v_from and h.finished_at <= v_now
        group by 1, 2
    ),
    counted as (
        select p.channel, (count(*) filter (where p.state = 'ready'))::int as ready,
            (count(*) filter (where p.state = 'leased'))::int as leased,
            min(p.id) filter (where p.state = 'ready') as oldest
        from ({{places queue = v_queue.id; now = v_now}}) p (channel, id, state, until)
        group by p.channel
    ),
    known as (
        select coalesce(n.channel, d.channel) as channel, coalesce(n.ready, 0) as ready,
            coalesce(n.leased, 0) as leased, sum(n.leased) over () as all_leased,
            coalesce(d.served, 0) + coalesce(n.leased, 0) as served,
            coalesce(d.busy_ms, 0) as busy_ms, v_now - greatest(m.sent_at, m.at) as waits_ms
        from counted n left join turnabout.message m on m.id = n.oldest
        full join (
            select d.channel, sum(d.served)::int as served, sum(d.busy_ms)::bigint as busy_ms
            from done d group by d.channel
        ) d on d.channel = n.channel
    ),
    -- Through how many slices, from now back, a channel has waited that no limit of its own holds.
    judged as (
        select h.*, h.blocked not like 'queue%' as is_held, case
                when h.blocked is null or h.blocked like 'queue%'
                    then least(30, coalesce(h.waits_ms / v_slice, 0))
                else 0
            end as slices
        from (
            select b.*, coalesce(c.weight, v_queue.weight, 1) as weight, {{held}} as blocked,
                case when c.rate_count is null then v_queue.rate_interval_us
                    else c.rate_interval_us end as interval_us
            from known b
            {{limits_of_channel}}
        ) h
    ),
    widths as (
        select j.slices, sum(j.weight)::int as width from judged j where j.slices > 0 group by 1
    ),
    asked as (
        select s.slice, s.channel, j.weight, j.slices > s.slice as waits,
            sum(s.served)::int as served
        from (
            select d.slice, d.channel, d.served from done d
            union all
            select 0, j.channel, j.leased from judged j where j.leased > 0
        ) s
        join judged j on j.channel = s.channel group by 1, 2, 3, 4
    ),
    -- Water is poured into the slice: who asked for little has that, the others share what is left.
    levels as (
        select t.slice, coalesce(
            max(i.level) filter (where i.depth > i.level), t.left_over / nullif(t.width, 0)
        ) as level
        from (
            select a.slice, sum(a.served)::float8 as water,
                coalesce(sum(a.served) filter (where a.waits), 0)::float8 as left_over,
                (select sum(w.width) from widths w where w.slices > a.slice) as width
            from asked a group by a.slice
        ) t
        left join lateral (
            select a.served::float8 / a.weight as depth,
                (t.water - sum(a.served) over above + a.served)
                    / (coalesce(t.width, 0) + sum(a.weight) over here) as level
            from asked a where a.slice = t.slice and not a.waits
            window above as (order by a.served::float8 / a.weight, a.channel),
                here as (order by a.served::float8 / a.weight desc, a.channel desc)
        ) i on true
        group by t.slice, t.left_over, t.width
    ),
    shares as (
        select j.channel, j.ready, j.leased, j.waits_ms, j.blocked, j.is_held, j.weight, j.served,
            j.busy_ms,
            coalesce(g.got, 0) as got, case when f.level is not null then least(
                j.weight * f.level, 1 + 1000.0 * j.slices * v_slice / j.interval_us  -- its rate
            ) end as fair
        from judged j
        left join (
            select a.channel, sum(a.served)::int as got from asked a
            where a.waits group by a.channel
        ) g on g.channel = j.channel
        left join (
            select n.slices, sum(l.level) as level from generate_series(1, 30) n (slices)
            join levels l on l.slice < n.slices group by n.slices
        ) f on f.slices = j.slices and 1 < (select count(*) from judged o where o.slices > 0)
    ),
    told as (
        select s.*, v_queue.history_ms > 0 and (
                s.got < .7 * s.fair and s.fair - s.got >= 5 or s.got = 0 and s.fair >= 2
            ) as starved
        from shares s
    ),
    page as (
        select t.* from told t
        where fairness.find is null or position(lower(fairness.find) in lower(t.channel)) > 0
        order by case sort when 'ready' then -t.ready when 'oldest' then -t.waits_ms
                when 'served' then -t.served when 'fairness' then t.got / nullif(t.fair, 0) end,
            case sort when 'channel' then t.channel collate "C" end,
            t.starved desc nulls last, t.ready desc, t.channel collate "C"
        offset beyond limit most
    )
    select null::text, sum(t.ready)::bigint, sum(t.leased)::bigint, max(t.waits_ms), null::text, 0,
        sum(t.served)::bigint, sum(t.busy_ms)::bigint, count(*) filter (where t.is_held), 0::float8,
        count(*) filter (where t.starved), count(*) filter (where t.ready > 0), count(*) filter (
            where fairness.find is null or position(lower(fairness.find) in lower(t.channel)) > 0),
        v_now - v_from, v_queue.history_ms = 0
    from told t
    union all
    (select p.channel, p.ready, p.leased, p.waits_ms, p.blocked, p.weight, p.served::bigint,
        p.busy_ms::bigint, p.got::bigint, p.fair, p.starved::int::bigint, 0, 0, 0, null
    from page p);
end $$;
