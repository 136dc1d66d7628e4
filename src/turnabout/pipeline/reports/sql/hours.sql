-- By channel and the hour of the ends, with exact quantiles: each is a time that a message had.
select namespace, queue, channel, timestamp_millis(hour_ms) as hour, {counts},
    cast(percentile_disc(0.5) within group (order by wait_ms) as bigint) as wait_p50_ms,
    cast(percentile_disc(0.9) within group (order by wait_ms) as bigint) as wait_p90_ms,
    cast(percentile_disc(0.99) within group (order by wait_ms) as bigint) as wait_p99_ms,
    max(wait_ms) as wait_max_ms,
    cast(percentile_disc(0.5) within group (order by handle_ms) as bigint) as handle_p50_ms,
    cast(percentile_disc(0.9) within group (order by handle_ms) as bigint) as handle_p90_ms,
    cast(percentile_disc(0.99) within group (order by handle_ms) as bigint) as handle_p99_ms,
    max(handle_ms) as handle_max_ms,
    -- A second at least, or one message alone would be a thousand a second.
    count(*) * 1e3 / greatest(
        least(hour_ms + 3600000, {until}) - greatest(hour_ms, {first}), 1000
    ) as per_second
from (
    select *, cast(floor(ended_ms / 3600000) as bigint) * 3600000 as hour_ms from narrow
    where ended_ms >= {begin} and ended_ms < {end}
) as with_hour
group by namespace, queue, channel, hour_ms
