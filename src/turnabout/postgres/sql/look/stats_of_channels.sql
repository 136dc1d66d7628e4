-- The channels of a queue with the most unfinished messages, and what holds their ready ones back.
-- plans: free
create or replace function turnabout.stats_of_channels(
    queue text, most int, now_ms turnabout.instant default null
) returns table (
    channel text, scheduled bigint, ready bigint, leased bigint, oldest_ready_ms bigint,
    blocked text, ran_out bigint
)
language plpgsql stable as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(stats_of_channels.queue);
    v_now bigint := coalesce(stats_of_channels.now_ms, turnabout.clock_ms());
begin
    return query
    select b.channel, b.scheduled, b.ready, b.leased, v_now - b.oldest_ready_at,
        case
            when head.at >= 9000000000000000 then 'exhausted'
            when b.ready = 0 then null
            when v_queue.paused or c.paused or c.paused_until > v_now then 'paused'
            when v_queue.fifo and b.leased > 0 then 'fifo'
            when b.leased >= coalesce(c.max_concurrency, v_queue.max_concurrency) then 'concurrency'
            when turnabout.free_tokens(
                v_now * 1000, c.rate_tat_us,
                case when c.rate_count is null then v_queue.rate_interval_us
                    else c.rate_interval_us end,
                case when c.rate_count is null then v_queue.rate_burst else c.rate_burst end
            ) = 0 then 'rate'
            when head.at > v_now then 'fifo'
            when b.all_leased >= v_queue.queue_max_concurrency then 'queue_concurrency'
            when turnabout.free_tokens(
                v_now * 1000, coalesce(own.rate_tat_us, 0), v_queue.queue_rate_interval_us,
                v_queue.queue_rate_burst
            ) = 0 then 'queue_rate'
        end,
        b.ran_out
    from (
        select p.channel,
            count(*) filter (where p.state = 'scheduled') as scheduled,
            count(*) filter (where p.state = 'ready') as ready,
            count(*) filter (where p.state = 'leased') as leased,
            count(*) filter (where p.state = 'leased' and p.until <= v_now) as ran_out,
            sum(count(*) filter (where p.state = 'leased')) over () as all_leased,
            (
                select o.sent_at from turnabout.message o
                where o.id = min(p.id) filter (where p.state = 'ready')
            ) as oldest_ready_at
        from (
            select r.channel::text, r.id, case when r.at > v_now then 'scheduled' else 'ready' end,
                null::bigint
            from turnabout.ready r
            where r.queue_id = v_queue.id and r.id > 0
            union all
            select s.channel::text, s.id, case when s.at > v_now then 'scheduled' else 'ready' end,
                null
            from turnabout.scheduled s
            where s.queue_id = v_queue.id
            union all
            select l.channel, l.id, 'leased', l.until
            from turnabout.leased_messages(array[v_queue.id]) l
        ) p (channel, id, state, until)
        group by p.channel
        order by count(*) desc, p.channel
        limit stats_of_channels.most
    ) b
    left join turnabout.channel c on c.queue_id = v_queue.id and c.name = b.channel
    left join turnabout.queue_limit own on own.queue_id = v_queue.id
    left join lateral (
        -- A FIFO channel waits for the first message that is not leased.
        select r.at from turnabout.ready r
        where v_queue.fifo and r.queue_id = v_queue.id and r.limited and r.channel = b.channel
        order by r.priority, r.id
        limit 1
    ) head on true
    order by b.scheduled + b.ready + b.leased desc, b.channel collate "C";
end
$$;
