-- Keep them in history, without payload and result.
kept as (
    insert into turnabout.history (
        id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel,
        error
    )
    select e.id, e.sent_at, h.leased_at, coalesce($now::bigint, turnabout.clock_ms()), e.queue_id,
        $attempt::int, e.failures, e.crashes, 1, e.channel, e.last_error
    from ended e
    cross join held h
),
