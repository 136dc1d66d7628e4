-- The first message of the next channel that nobody holds; at the end of the names, of the first.
-- What that lands on may be a head mark, or have expired: that is special, too.
gone as (
    delete from turnabout.ready r
    where r.ctid = coalesce(
            (
                select e.ctid from turnabout.ready e
                where e.queue_id = (select f.id from facts f) and not e.limited
                    and e.channel > coalesce($channel::text, chr(1114111)) collate "C"
                order by e.channel, e.priority, e.id
                limit 1
                for update skip locked
            ),
            (
                select e.ctid from turnabout.ready e
                where e.queue_id = (select f.id from facts f) and not e.limited
                order by e.channel, e.priority, e.id
                limit 1
                for update skip locked
            )
        )
        and r.id > 0
        and (r.expires_at is null or r.expires_at > (select f.now from facts f))
    returning r.id
)
