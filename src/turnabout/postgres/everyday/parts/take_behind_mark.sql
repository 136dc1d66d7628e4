-- The first message of the next channel, wherever a head mark says that its line goes on.
first as materialized ({{next_place queue = (select f.id from facts f)}}),
gone as (
    delete from turnabout.ready r where r.ctid = (
        select head.ctid from first p
        cross join lateral (
            {{line_from
                what = e.ctid; queue = (select f.id from facts f); name = p.channel; place = p}}
                and (e.expires_at is null or e.expires_at > (select f.now from facts f))
            order by e.priority, e.id limit 1 for update skip locked
        ) head
    )
    returning r.id
)
