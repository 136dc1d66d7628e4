-- Messages counted by `{keys}`.
select {keys}, count(*) as messages, count(*) filter (where outcome = 'done') as done,
    count(*) filter (where outcome = 'dead') as dead,
    count(*) filter (where outcome = 'cancelled') as cancelled,
    count(*) filter (where outcome = 'expired') as expired, count(leased_ms) as leased,
    count(*) filter (where leased_ms is not null and attempt > 1) as retried,
    cast(sum(coalesce(attempt, 0)) as bigint) as attempts,
    cast(sum(coalesce(failures, 0)) as bigint) as failures,
    cast(sum(coalesce(crashes, 0)) as bigint) as crashes, avg(wait_ms) as wait_mean_ms,
    max(wait_ms) as wait_max_ms, avg(handle_ms) as handle_mean_ms, max(handle_ms) as handle_max_ms
from ({source}) as rows_of_log group by {keys}
