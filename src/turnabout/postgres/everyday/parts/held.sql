-- What holds the ready messages of a channel back: of its counts `b`, its row `c`, its head in a
-- FIFO queue, and the queue's `own` limits.
case
    when head.at >= 9000000000000000 then 'exhausted'
    when b.ready = 0 then null
    when v_queue.paused or c.paused or c.paused_until > v_now then 'paused'
    when v_queue.fifo and b.leased > 0 then 'fifo'
    when b.leased >= coalesce(c.max_concurrency, v_queue.max_concurrency) then 'concurrency'
    when turnabout.free_tokens(
        v_now * 1000, c.rate_tat_us,
        case when c.rate_count is null then v_queue.rate_interval_us else c.rate_interval_us end,
        case when c.rate_count is null then v_queue.rate_burst else c.rate_burst end
    ) = 0 then 'rate'
    when head.at > v_now then 'fifo'
    when b.all_leased >= v_queue.queue_max_concurrency then 'queue_concurrency'
    when turnabout.free_tokens(
        v_now * 1000, coalesce(own.rate_tat_us, 0), v_queue.queue_rate_interval_us,
        v_queue.queue_rate_burst
    ) = 0 then 'queue_rate'
end
