-- The channels of a queue with the most unfinished messages, and what holds their ready ones back.
create or replace function turnabout.stats_of_channels(
    queue text, most int, now_ms turnabout.instant default null
) returns table (
    channel text, scheduled bigint, ready bigint, leased bigint, oldest_ready_ms bigint,
    blocked text, ran_out bigint
) language plpgsql stable as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(stats_of_channels.queue);
    v_now bigint := coalesce(stats_of_channels.now_ms, turnabout.clock_ms());
begin
    return query
    select b.channel, b.scheduled, b.ready, b.leased, v_now - b.oldest_ready_at, {{held}}, b.ran_out
    from (
        select p.channel, count(*) filter (where p.state = 'scheduled') as scheduled,
            count(*) filter (where p.state = 'ready') as ready,
            count(*) filter (where p.state = 'leased') as leased,
            count(*) filter (where p.state = 'leased' and p.until <= v_now) as ran_out,
            sum(count(*) filter (where p.state = 'leased')) over () as all_leased,
            (
                select o.sent_at from turnabout.message o
                where o.id = min(p.id) filter (where p.state = 'ready')
            ) as oldest_ready_at
        from ({{places queue = v_queue.id; now = v_now}}) p (channel, id, state, until)
        group by p.channel order by count(*) desc, p.channel limit stats_of_channels.most
    ) b
    {{limits_of_channel}} order by b.scheduled + b.ready + b.leased desc, b.channel collate "C";
end $$;
