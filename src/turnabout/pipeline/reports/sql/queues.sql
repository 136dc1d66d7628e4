-- How many channels each queue had, and whose messages waited longest in the mean.
select namespace, queue, count(*) as channels, max_by(channel, wait_mean_ms) as slowest from (
    select namespace, queue, channel, avg(wait_ms) as wait_mean_ms from narrow
    group by namespace, queue, channel
) as by_channel
group by namespace, queue
