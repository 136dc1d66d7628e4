-- Lease what is gone from the line.
taken as materialized (
    select m.id, m.attempt + 1 as attempt, m.channel::text, m.priority, m.payload,
        coalesce(m.content_type, 'application/octet-stream') as content_type, m.headers, m.state,
        m.failures, m.crashes, m.sent_at, m.origin, f.now + f.lease_ms as at, f.lease_ms,
        {number} as lease
    from gone g join turnabout.message m on m.id = g.id cross join facts f
),
leased as (
    insert into turnabout.lease (id, until, leased_at, queue_id, keeps, ids, attempts, plain_queue)
    select t.lease, t.at, f.now, f.id, f.keeps, t.ids, t.attempts, f.plain_queue from {rows} t
    cross join facts f
)
