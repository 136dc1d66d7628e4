-- Messages counted by `{keys}`, with quantiles of times, rounded to three digits: equal ones are
-- counted first, so that memory is bounded by how many different times there are.
with chosen as ({source}),
counts as (
    select {keys}, {counts}, avg(wait_ms) as wait_mean_ms, max(wait_ms) as wait_max_ms,
        avg(handle_ms) as handle_mean_ms, max(handle_ms) as handle_max_ms
    from chosen group by {keys}
),
times as (
    select {keys}, 'wait' as kind, wait_ms as ms from chosen where wait_ms is not null
    union all
    select {keys}, 'handle' as kind, handle_ms as ms from chosen where handle_ms is not null
),
counted as (
    select {keys}, kind, count(*) as times,
        cast(round(ms / pow(10, digits)) * pow(10, digits) as bigint) as rounded
    from (select *, greatest(floor(log10(greatest(ms, 1))) - 2, 0) as digits from times) as measured
    group by all
),
ranked as (
    select *, sum(times) over (partition by {keys}, kind order by rounded) as upto,
        sum(times) over (partition by {keys}, kind) as total
    from counted
),
quantiles as (
    select {keys}, min(rounded) filter (where kind = 'wait' and upto >= 0.5 * total) as wait_p50_ms,
        min(rounded) filter (where kind = 'wait' and upto >= 0.9 * total) as wait_p90_ms,
        min(rounded) filter (where kind = 'wait' and upto >= 0.99 * total) as wait_p99_ms,
        min(rounded) filter (where kind = 'handle' and upto >= 0.5 * total) as handle_p50_ms,
        min(rounded) filter (where kind = 'handle' and upto >= 0.9 * total) as handle_p90_ms,
        min(rounded) filter (where kind = 'handle' and upto >= 0.99 * total) as handle_p99_ms
    from ranked group by {keys}
)
select * from counts left join quantiles using ({keys}) order by messages desc, {keys}
