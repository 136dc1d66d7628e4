-- Channels with policies are asleep: the others go on as if there were none. (What such a channel
-- has from before its policy is left to the function.)
(
    select 1 from turnabout.channel c where c.queue_id = q.id and c.awake_name is not null limit 1
) is null and (
    select 1 from turnabout.channel c
    where c.queue_id = q.id and c.wake_at <= coalesce($now::bigint, turnabout.clock_ms()) limit 1
) is null and (select 1 from turnabout.wake w where w.queue_id = q.id limit 1) is null
