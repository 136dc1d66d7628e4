-- The rows that a report is about, with instants in milliseconds: `unix_millis` is Spark's name;
-- DuckDB gets a macro. Waiting counts to the first lease; the log has the time of the last one.
-- They are the same where attempt = 1. No time is below 0: the clocks of two databases differ.
with plain as (
    select coalesce(namespace, '') as namespace, coalesce(queue, '(deleted)') as queue, channel,
        message_id, outcome, attempt, failures, crashes, error, unix_millis(sent_at) as sent_ms,
        unix_millis(leased_at) as leased_ms, unix_millis(finished_at) as ended_ms
    from log
)
select *, 0 as everything,
    case when attempt = 1 and leased_ms is not null
        then greatest(leased_ms - sent_ms, 0)
    end as wait_ms,
    case when leased_ms is not null then greatest(ended_ms - leased_ms, 0) end as handle_ms
from plain where ended_ms >= {since} and ended_ms < {until}
