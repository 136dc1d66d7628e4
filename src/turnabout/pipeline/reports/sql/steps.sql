-- The rows of the busiest queues, with the step of time that each ended in.
select n.*, cast(floor(ended_ms / {step}) as bigint) * {step} as begun from narrow as n
join (
    select namespace, queue from narrow group by namespace, queue
    order by count(*) desc, namespace, queue limit {drawn}
) as t on t.namespace = n.namespace and t.queue = n.queue
