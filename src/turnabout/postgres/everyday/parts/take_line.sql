-- All from one channel, if no other one has anything. Its head is looked for once, as the way to it
-- may lead over pages of dead entries; where it is a head mark, the line begins at that.
head as materialized (
    select f.id as queue_id, f.now, first.priority, first.since from facts f
    cross join lateral (
        {{entry
            what = r.priority, case when r.id < 0 then r.at else r.id end as since;
            queue = f.id;
            after = = $channel::text collate "C"}}
    ) first
    where ({{entry what = 1; queue = f.id; after = > $channel::text collate "C"}}) is null
        and ({{entry what = 1; queue = f.id; after = < $channel::text collate "C"}}) is null
),
gone as (
    delete from turnabout.ready r where r.ctid = any (array(
        select place.ctid from head h
        cross join lateral (
            {{line_from
                what = e.ctid; queue = h.queue_id; name = $channel::text collate "C"; place = h}}
                and (e.expires_at is null or e.expires_at > h.now)
            order by e.priority, e.id limit $most::int for update skip locked
        ) place
    ))
    returning r.id
)
