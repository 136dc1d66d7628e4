-- One from each of the next channels, up to the end of their names, or to a head mark. (The next
-- call begins there; one that finds less than it asks for takes the channels in turn.)
hop (channel, nr, place, is_mark) as (
    select f.start, 0, null::tid, false from facts f
    union all
    select next.channel, hop.nr + 1, next.place, next.is_mark from hop
    cross join lateral (
        {{entry
            what = r.channel, r.ctid as place, r.id < 0 as is_mark;
            queue = (select f.id from facts f);
            after = > hop.channel and (r.expires_at is null or r.expires_at = 0
                or r.expires_at > (select f.now from facts f))}}
        for update skip locked
    ) next
    where hop.nr < $most::int and not hop.is_mark
),
gone as (
    delete from turnabout.ready r
    where r.ctid = any (array(select h.place from hop h where h.nr > 0 and not h.is_mark))
    returning r.id
)
