-- The busiest channels, by what hours has of them.
select namespace, queue, channel, sum(messages) as messages from hours
group by namespace, queue, channel order by messages desc, namespace, queue, channel limit {top}
