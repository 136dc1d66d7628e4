-- The rows of the busiest channels, by what hours has of them.
select n.* from narrow as n
join (
    select namespace, queue, channel, sum(messages) as messages from hours
    group by all order by messages desc, namespace, queue, channel limit {top}
) as t on t.namespace = n.namespace and t.queue = n.queue and t.channel = n.channel
