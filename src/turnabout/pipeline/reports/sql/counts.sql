-- Columns of counts, for measures and hours.
count(*) as messages, count(*) filter (where outcome = 'done') as done,
    count(*) filter (where outcome = 'dead') as dead,
    count(*) filter (where outcome = 'cancelled') as cancelled,
    count(*) filter (where outcome = 'expired') as expired, count(leased_ms) as leased,
    count(*) filter (where leased_ms is not null and attempt > 1) as retried,
    cast(sum(attempt) as bigint) as attempts, cast(sum(failures) as bigint) as failures,
    cast(sum(crashes) as bigint) as crashes
