-- The rows that `held` reads, of a channel with counts `b`.
left join turnabout.channel c on c.queue_id = v_queue.id and c.name = b.channel
left join turnabout.queue_limit own on own.queue_id = v_queue.id
left join lateral (
    -- A FIFO channel waits for the first message that is not leased.
    select r.at from turnabout.ready r
    where v_queue.fifo and r.queue_id = v_queue.id and r.limited and r.channel = b.channel
    order by r.priority, r.id limit 1
) head on true
