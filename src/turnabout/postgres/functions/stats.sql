-- Counts of one queue, or of all by name, or of a namespace's. Live messages are counted, each kind
-- in its own index where these queues have few of them, else in one walk over all; finished ones
-- come from the tally. The plan depends on the queues, so it is made anew each time.
create or replace function turnabout.stats(
    queue text default null, now_ms bigint default null, namespace text default null
) returns table (
    name text, scheduled bigint, ready bigint, leased bigint, sent bigint, done bigint,
    dead bigint, cancelled bigint, expired bigint, oldest_ready_ms bigint, paused boolean,
    pause_reason text
)
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
declare
    v_now bigint := coalesce(stats.now_ms, turnabout.clock_ms());
    v_queues int[] := array(
        select q.id from turnabout.queue_list(stats.queue, stats.namespace) q
    );
begin
    return query
    with live as (
        select r.queue_id, r.status, r.at, r.sent_at
        from turnabout.message r
        where r.queue_id = any (v_queues) and r.status = 0 and not r.limited and r.id > 0
        union all
        select r.queue_id, r.status, r.at, r.sent_at
        from turnabout.message r
        where r.queue_id = any (v_queues) and r.status = 0 and r.limited and r.id > 0
        union all
        select r.queue_id, r.status, r.at, r.sent_at
        from turnabout.message r
        where r.queue_id = any (v_queues) and r.status > 0 and r.id > 0
    ),
    counted as (
        select l.queue_id,
            count(*) filter (where l.state = 'scheduled') as scheduled,
            count(*) filter (where l.state = 'ready') as ready,
            count(*) filter (where l.state = 'leased') as leased,
            min(l.sent_at) filter (where l.state = 'ready') as oldest_ready_at
        from (
            select r.queue_id, turnabout.state_of(r.status, r.at, v_now) as state, r.sent_at
            from live r
        ) l
        group by l.queue_id
    )
    select q.name::text, coalesce(m.scheduled, 0), coalesce(m.ready, 0), coalesce(m.leased, 0),
        coalesce(t.sent, 0), coalesce(t.done, 0), coalesce(t.dead, 0), coalesce(t.cancelled, 0),
        coalesce(t.expired, 0), v_now - m.oldest_ready_at, q.paused, q.pause_reason
    from turnabout.queue q
    left join counted m on m.queue_id = q.id
    left join turnabout.counts_of(v_queues) t on t.queue_id = q.id
    where q.id = any (v_queues)
    order by q.name;
end
$$;
