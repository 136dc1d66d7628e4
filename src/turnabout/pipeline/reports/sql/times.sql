-- Quantiles by `{keys}`, of times that are rounded to three digits: equal ones are counted first,
-- so that memory is bounded by how many different times there are, however many messages.
with times as (
    select {keys}, 'wait' as kind, wait_ms as ms from ({source}) as one where wait_ms is not null
    union all
    select {keys}, 'handle' as kind, handle_ms as ms from ({source}) as other
    where handle_ms is not null
),
rounded as (
    select {keys}, kind, cast(round(ms / pow(10, digits)) * pow(10, digits) as bigint) as ms
    from (select *, greatest(floor(log10(greatest(ms, 1))) - 2, 0) as digits from times) as measured
),
counted as (select {keys}, kind, ms, count(*) as times from rounded group by {keys}, kind, ms),
ranked as (
    select *, sum(times) over (partition by {keys}, kind order by ms) as upto,
        sum(times) over (partition by {keys}, kind) as total
    from counted
)
select {keys}, min(ms) filter (where kind = 'wait' and upto >= 0.5 * total) as wait_p50_ms,
    min(ms) filter (where kind = 'wait' and upto >= 0.9 * total) as wait_p90_ms,
    min(ms) filter (where kind = 'wait' and upto >= 0.99 * total) as wait_p99_ms,
    min(ms) filter (where kind = 'handle' and upto >= 0.5 * total) as handle_p50_ms,
    min(ms) filter (where kind = 'handle' and upto >= 0.9 * total) as handle_p90_ms,
    min(ms) filter (where kind = 'handle' and upto >= 0.99 * total) as handle_p99_ms
from ranked group by {keys}
