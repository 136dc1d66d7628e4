-- One from each of the next channels, up to the end of their names. (The next call begins there.)
hop (channel, nr, place) as (
    select coalesce($channel::text, repeat(chr(1114111), 64)) collate "C", 0, null::tid from facts f
    union all
    select next.channel, hop.nr + 1, next.place
    from hop
    cross join lateral (
        {{entry
            what = r.channel, r.ctid as place;
            queue = (select f.id from facts f);
            after = > hop.channel and r.id + 0 > 0
                and (r.expires_at is null or r.expires_at > (select f.now from facts f))}}
        for update skip locked
    ) next
    where hop.nr < $most::int
),
gone as (
    delete from turnabout.ready r
    where r.ctid = any (array(select h.place from hop h where h.nr > 0))
    returning r.id
)
