-- Messages with an error, or dead without one, by queue and kind of error: its last line without
-- what is particular.
select namespace, queue, kind_of(message) as error, count(*) as messages,
    count(*) filter (where outcome = 'dead') as dead, count(distinct channel) as channels,
    timestamp_millis(min(ended_ms)) as first_at, timestamp_millis(max(ended_ms)) as last_at,
    max_by(substring(error, 1, 2000), message_id) as example, max(message_id) as example_id
from (
    select *, coalesce(error, '') as message from narrow where error is not null or outcome = 'dead'
) as failed
group by namespace, queue, kind_of(message)
