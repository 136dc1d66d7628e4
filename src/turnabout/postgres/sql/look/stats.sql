-- Counts of one queue, or of all by name, or of a namespace's. Messages are counted where they
-- stand; finished ones come from the tally, and what is unfinished and stands nowhere is leased; or
-- ready, while transactions of before a crash are prepared that hold it.
-- The plan depends on the queues, so it is made anew each time.
create or replace function turnabout.stats(
    queue text default null, now_ms turnabout.instant default null, namespace text default null,
    after text default null, most int default null
) returns table (
    name text, scheduled bigint, ready bigint, leased bigint, sent bigint, done bigint,
    dead bigint, cancelled bigint, expired bigint, oldest_ready_ms bigint, paused boolean,
    pause_reason text, ran_out bigint
) language plpgsql set plan_cache_mode = force_custom_plan set jit = off as $$  -- plans: free
declare
    v_now bigint := coalesce(stats.now_ms, turnabout.clock_ms());
    v_queues int[] := array(
        select q.id
        from turnabout.queue_list(stats.queue, stats.namespace, stats.after, stats.most) q
    );
begin
    perform turnabout.require_places();
    return query
    with placed as (
        select r.queue_id, count(*) filter (where r.at > v_now) as scheduled,
            count(*) filter (where r.at is null or r.at <= v_now) as ready,
            min(r.id) filter (where r.at is null or r.at <= v_now) as first
        from turnabout.ready r where r.queue_id = any (v_queues) and r.id > 0 group by r.queue_id
        union all
        select s.queue_id, count(*) filter (where s.at > v_now),
            count(*) filter (where s.at <= v_now), min(s.id) filter (where s.at <= v_now)
        from turnabout.scheduled s where s.queue_id = any (v_queues) group by s.queue_id
    ),
    counted as (
        select p.queue_id, sum(p.scheduled)::bigint as scheduled, sum(p.ready)::bigint as ready,
            (select o.sent_at from turnabout.message o where o.id = min(p.first)) as oldest_ready_at
        from placed p group by p.queue_id
    )
    select q.name::text, coalesce(m.scheduled, 0),
        coalesce(m.ready, 0) + coalesce(o.nowhere - o.leased, 0), coalesce(o.leased, n.nowhere),
        coalesce(t.sent, 0), coalesce(t.done, 0), coalesce(t.dead, 0), coalesce(t.cancelled, 0),
        coalesce(t.expired, 0), v_now - m.oldest_ready_at, q.paused, q.pause_reason,
        (
            select count(*) from turnabout.lease l
            cross join unnest(l.ids, l.attempts) u (id, attempt)
            join turnabout.message o on o.id = u.id and o.attempt = u.attempt - 1
                and o.queue_id = l.queue_id
            where l.queue_id = q.id and l.until <= v_now
                and {{ends_at message = u.id; lease = l}} <= v_now
        )
    from turnabout.queue q left join counted m on m.queue_id = q.id
    left join turnabout.counts_of(v_queues) t on t.queue_id = q.id
    cross join lateral (
        select greatest(0, coalesce(t.sent - t.done - t.dead - t.cancelled - t.expired, 0)
            - coalesce(m.scheduled, 0) - coalesce(m.ready, 0)) as nowhere
    ) n
    left join lateral (
        select n.nowhere, least(n.nowhere, count(*)) as leased
        from turnabout.leased_messages(array[q.id])
    ) o on exists (select from turnabout.recent_change c where c.queue = '')
    where q.id = any (v_queues) order by q.name;
end $$;
