-- Channels without a policy.
(
    select 1 from turnabout.channel c
    where c.queue_id = (select f.id from facts f) and c.name = place.channel
) is null
