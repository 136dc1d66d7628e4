-- Lease one message, where nothing special is going on; else nothing, and no row is the answer:
-- then sql/receive/receive.sql does it, which knows everything. That one also runs now and then
-- when this one would do, to see what time has brought: due messages, dead leases, head marks.
--
-- A policy of a channel is seen by the channel's row, which policy_set makes at once, unless
-- somebody else is just making it.
--
-- The first message of the next channel that nobody holds; at the end of the names, of the first.
-- What that lands on may be a head mark, or have expired: that is special, too.
with facts as materialized (
    select q.id, case when q.history_ms = 0 then q.name end as plain_queue,
        coalesce($lease_ms::bigint, q.lease_ms) as lease_ms,
        coalesce($now::bigint, turnabout.clock_ms()) as now
    from turnabout.queue q
    where q.name = $queue::text and not q.paused and not q.limited and not q.queue_limited
        and q.events <> 'all'
        and (select 1 from turnabout.channel c where c.queue_id = q.id limit 1) is null
),
gone as (
    delete from turnabout.ready r
    where r.ctid = coalesce(
            (
                select e.ctid from turnabout.ready e
                where e.queue_id = (select f.id from facts f) and not e.limited
                    and e.channel > coalesce($channel::text, chr(1114111)) collate "C"
                order by e.channel, e.priority, e.id
                limit 1
                for update skip locked
            ),
            (
                select e.ctid from turnabout.ready e
                where e.queue_id = (select f.id from facts f) and not e.limited
                order by e.channel, e.priority, e.id
                limit 1
                for update skip locked
            )
        )
        and r.id > 0
        and (r.expires_at is null or r.expires_at > (select f.now from facts f))
    returning r.id
),
taken as materialized (
    select m.id, m.attempt + 1 as attempt, m.channel::text, m.priority, m.payload,
        coalesce(m.content_type, 'application/octet-stream') as content_type, m.headers, m.state,
        m.failures, m.crashes, m.sent_at, m.origin, f.now + f.lease_ms as at, f.lease_ms,
        nextval('turnabout.lease_number') as lease
    from gone g
    join turnabout.message m on m.id = g.id
    cross join facts f
),
leased as (
    insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts, plain_queue)
    select t.lease, t.at, f.now, f.id, array[t.id], array[t.attempt], f.plain_queue
    from taken t
    cross join facts f
)
select * from taken
