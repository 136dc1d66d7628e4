-- Whether time has brought a queue nothing that a receive has to see first: no message that is due,
-- no lease that ran out, none that has expired, no change of the queue or a channel, no head of a
-- line behind so many dead entries that a head mark is worth its price. Else no row: then
-- sql/receive/receive.sql looks, and does what there is to do. It asks the same, and says why.
with before as materialized (
    select q.id, q.timers_since, coalesce($now::bigint, turnabout.clock_ms()) as now,
        turnabout.line_walked() as walked
    from turnabout.queue q where q.name = $queue::text
)
select null from before b
where (
        select 1 from turnabout.lease l
        where l.queue_id = b.id and l.until <= b.now and l.until > b.timers_since limit 1
    ) is null and (
        select 1 from turnabout.scheduled s
        where s.queue_id = b.id and s.at <= b.now and s.at > b.timers_since limit 1
    ) is null and (
        select 1 from turnabout.scheduled s
        where s.queue_id = b.id and s.expires_at <= b.now limit 1
    ) is null and (
        select 1 from turnabout.ready r
        where r.queue_id = b.id and r.expires_at > 0 and r.expires_at <= b.now limit 1
    ) is null and (select 1 from turnabout.wake w where w.queue_id = b.id limit 1) is null and (
        select 1 from turnabout.recent_change c where c.queue = $queue::text limit 1
    ) is null and coalesce((
        select turnabout.line_walked() <= b.walked + 160 from ({{next_place queue = b.id}}) next
        cross join lateral (
            {{line_from what = e.id; queue = b.id; name = next.channel; place = next}}
            order by e.priority, e.id limit 1
        ) head
    ), true)
