-- All from one channel, if no other one has anything, and no head mark says that it begins later.
gone as (
    delete from turnabout.ready r
    where r.ctid = any (array(
            select e.ctid from turnabout.ready e
            where e.queue_id = (select f.id from facts f) and not e.limited
                and e.channel = $channel::text collate "C" and e.id + 0 > 0
                and (e.expires_at is null or e.expires_at > (select f.now from facts f))
            order by e.priority, e.id
            limit $most::int
            for update skip locked
        ))
        and (
            select e.id from turnabout.ready e
            where e.queue_id = (select f.id from facts f) and not e.limited
                and e.channel = $channel::text collate "C"
            order by e.priority, e.id
            limit 1
        ) > 0
        and (
            select 1 from turnabout.ready e
            where e.queue_id = (select f.id from facts f) and not e.limited
                and e.channel > $channel::text collate "C" limit 1
        ) is null
        and (
            select 1 from turnabout.ready e
            where e.queue_id = (select f.id from facts f) and not e.limited
                and e.channel < $channel::text collate "C" limit 1
        ) is null
    returning r.id
)
