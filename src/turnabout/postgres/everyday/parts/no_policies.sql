-- No channel has a policy.
(select 1 from turnabout.channel c where c.queue_id = q.id limit 1) is null
