-- Channels that got too little in some parts of the time, with the sums of these; the worst first.
select namespace, queue, channel, cast(sum(got) as bigint) as got, sum(fair) as fair,
    sum(fair - got) as missed, max(waited_ms) as waited_ms, min(first_ms) as first_ms,
    max(last_ms) + {fair_ms} as until_ms
from ({shares}) as parts group by namespace, queue, channel
order by missed desc, namespace, queue, channel
