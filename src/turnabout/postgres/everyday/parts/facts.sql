-- The queue, if nothing special is going on there, and what a receive needs to know of it.
facts as materialized (
    select q.id, q.history_ms > 0 as keeps,
        case when q.history_ms = 0 or not q.history_payload then q.name end as plain_queue,
        coalesce($lease_ms::bigint, q.lease_ms) as lease_ms,
        coalesce($now::bigint, turnabout.clock_ms()) as now{more}
    from turnabout.queue q
    where {which} and not q.paused and not q.limited and not q.queue_limited and q.events <> 'all'
        and {{limits}}
)
