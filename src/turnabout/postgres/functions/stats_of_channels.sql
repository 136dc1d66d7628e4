-- The channels of a queue with the most unfinished messages, and what holds their ready ones back.
create or replace function turnabout.stats_of_channels(
    queue text, most int, now_ms bigint default null
) returns table (
    channel text, scheduled bigint, ready bigint, leased bigint, oldest_ready_ms bigint,
    blocked text
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
            when v_queue.paused or c.paused then 'paused'
            when v_queue.fifo and b.leased > 0 then 'fifo'
            when b.leased >= coalesce(c.max_concurrency, v_queue.max_concurrency) then 'concurrency'
            when turnabout.free_tokens(
                v_now * 1000, c.rate_tat_us,
                case when c.rate_count is null then v_queue.rate_interval_us
                    else c.rate_interval_us end,
                case when c.rate_count is null then v_queue.rate_burst else c.rate_burst end
            ) = 0 then 'rate'
            when head.at > v_now then 'fifo'
        end
    from (
        select m.channel::text as channel,
            count(*) filter (where turnabout.state_of(m.status, m.at, v_now) = 'scheduled')
                as scheduled,
            count(*) filter (where turnabout.state_of(m.status, m.at, v_now) = 'ready') as ready,
            count(*) filter (where m.status = 2) as leased,
            min(m.sent_at) filter (where turnabout.state_of(m.status, m.at, v_now) = 'ready')
                as oldest_ready_at
        from turnabout.message m
        where m.queue_id = v_queue.id and m.id > 0
        group by m.channel
        order by count(*) desc, m.channel
        limit stats_of_channels.most
    ) b
    left join turnabout.channel c on c.queue_id = v_queue.id and c.name = b.channel
    left join lateral (
        -- A FIFO channel waits for the first message that is not leased.
        select m.at from turnabout.message m
        where v_queue.fifo and m.queue_id = v_queue.id and m.channel = b.channel and m.limited
            and m.status = 0
        order by m.priority, m.id
        limit 1
    ) head on true
    order by b.scheduled + b.ready + b.leased desc, b.channel collate "C";
end
$$;
