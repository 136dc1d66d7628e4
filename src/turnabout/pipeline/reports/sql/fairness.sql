-- What each channel got of a queue's service, and what was its fair share, in steps of {step} ms. A
-- step counts where something was served and two channels wanted service. A channel wanted what it
-- got, or what it had waiting when the step began, if that was more. Fair shares are max-min: no
-- channel's is above what it wanted, and what it leaves is divided among the others, by weight.
with leased as (
    -- the messages whose first lease is known, and how long each was the first of its channel
    select namespace, queue, channel, cast(floor(sent_ms / {step}) as bigint) * {step} as sent_at,
        cast(floor(leased_ms / {step}) as bigint) * {step} as leased_at,
        leased_ms - greatest(
            sent_ms,
            lag(leased_ms) over (partition by namespace, queue, channel order by leased_ms)
        ) as first_ms
    from narrow where attempt = 1 and leased_ms >= sent_ms
),
served as (
    select namespace, queue, leased_at as begun, count(*) as service from leased group by all
),
moved as (
    select namespace, queue, channel, begun, sum(sent) as sent, sum(got) as got,
        max(first_ms) as first_ms
    from (
        select namespace, queue, channel, sent_at as begun, 1 as sent, 0 as got, 0 as first_ms
        from leased
        union all
        select namespace, queue, channel, leased_at as begun, 0 as sent, 1 as got, first_ms
        from leased
    ) as events group by all
),
waiting as (
    select *,
        sum(sent - got) over (partition by namespace, queue, channel order by begun) as remaining,
        lead(begun) over (partition by namespace, queue, channel order by begun) as next_at
    from moved
),
wanted as (
    -- steps in which the channel moved
    select namespace, queue, channel, begun, got, first_ms,
        greatest(got, remaining - sent + got) as wanted
    from waiting
    union all
    -- and those between, in which it waited while others were served
    select w.namespace, w.queue, w.channel, s.begun, 0 as got, 0 as first_ms, w.remaining as wanted
    from waiting as w join served as s
        on s.namespace = w.namespace and s.queue = w.queue
        and s.begun > w.begun and s.begun < w.next_at
    where w.remaining > 0
),
weighed as (
    select w.*, s.service, coalesce(g.weight, 1e0) as weight,
        count(*) over (partition by w.namespace, w.queue, w.begun) as channels,
        -- A run ends with the step in which the channel is served.
        sum(case when w.got > 0 then 1 else 0 end) over (
            partition by w.namespace, w.queue, w.channel order by w.begun desc
        ) as run
    from wanted as w join served as s using (namespace, queue, begun)
    left join weights as g using (channel) where w.wanted > 0
),
levels as (
    -- who wants least for its weight comes first; what it leaves is for those behind it
    select *, count(*) over (partition by namespace, queue, channel, run) as steps,
        (service + wanted - (sum(wanted) over least_first)) / (
            weight
            + (sum(weight) over (partition by namespace, queue, begun))
            - (sum(weight) over least_first)
        ) as level
    from weighed
    window least_first as (
        partition by namespace, queue, begun order by wanted / weight, channel
        rows between unbounded preceding and current row
    )
),
shared as (
    select *, least(wanted, weight * max(level) over (partition by namespace, queue, begun)) as fair
    from levels
)
select namespace, queue, channel, timestamp_millis(begun) as begun, cast(got as bigint) as got,
    cast(wanted as bigint) as wanted, cast(fair as double) as fair,
    cast(got / fair as double) as ratio,
    cast(case when got > 0 then least(first_ms, steps * {step}) else 0 end as bigint) as waited_ms
from shared where channels > 1
