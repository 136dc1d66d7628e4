-- Send one message, where nothing limits the queue or delays it; else nothing, and no row is the
-- answer: then sql/send/send.sql does it.
with facts as materialized (
    select q.id, q.ttl_ms, coalesce($now::bigint, turnabout.clock_ms()) as now
    from turnabout.queue q
    where q.name = $queue::text and q.delay_ms = 0 and q.max_messages is null and not q.limited
        and q.events <> 'all'
        and (select 1 from turnabout.channel c where c.queue_id = q.id limit 1) is null
),
put as (
    {{put id = nextval('turnabout.message_id_seq'); rows = (
        select f.id as queue_id, $channel::text as channel, $priority::smallint as priority, f.now,
            null::bigint as delay, coalesce($ttl::bigint, f.ttl_ms) as ttl,
            $payload::bytea as payload, $type::text as content_type, $header::text as headers
        from facts f
    )}}
    returning id, expires_at, queue_id, priority, channel
),
lined_up as (
    insert into turnabout.ready (id, expires_at, queue_id, priority, limited, channel)
    select p.id, p.expires_at, p.queue_id, p.priority, false, p.channel from put p
),
counted as (insert into turnabout.tally (queue_id, sent) select p.queue_id, 1 from put p)
select array[p.id], null::text, null::int, null::bigint, null::int[], null::int[] from put p
