-- One from each of the next channels, up to the end of their names. (The next call begins there.)
hop (channel, nr, place) as (
    select coalesce($channel::text, repeat(chr(1114111), 64)) collate "C", 0, null::tid from facts f
    union all
    select next.channel, hop.nr + 1, next.place
    from hop
    cross join lateral (
        select e.channel, e.ctid as place
        from turnabout.ready e
        where e.queue_id = (select f.id from facts f) and not e.limited and e.channel > hop.channel
            and e.id + 0 > 0
            and (e.expires_at is null or e.expires_at > (select f.now from facts f))
        order by e.channel, e.priority, e.id
        limit 1
        for update skip locked
    ) next
    where hop.nr < $most::int
),
gone as (
    delete from turnabout.ready r
    where r.ctid = any (array(select h.place from hop h where h.nr > 0))
    returning r.id
)
