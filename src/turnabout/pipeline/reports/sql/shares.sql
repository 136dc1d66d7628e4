-- Each channel's service and fair share by `{keys}`; `waited_ms` is the longest time that its first
-- message waited while others were served.
select {keys}, cast(sum(got) as bigint) as got, sum(fair) as fair,
    cast(sum(got) as double) / sum(fair) as ratio, max(waited_ms) as waited_ms,
    unix_millis(min(begun)) as first_ms, unix_millis(max(begun)) as last_ms
from (
    select *, cast(floor(unix_millis(begun) / {step}) as bigint) * {step} as block from fairness
) as blocks
group by {keys} having sum(fair) >= {least} and sum(got) < {below} * sum(fair)
order by ratio, {keys}
