-- The first message of the next channel that nobody holds; at the end of the names, of the first.
-- What that lands on may be a head mark, or have expired: that is special, too.
gone as (
    delete from turnabout.ready r where r.ctid = coalesce(
            (
                {{entry
                    what = r.ctid;
                    queue = (select f.id from facts f);
                    after = > coalesce($channel::text, chr(1114111)) collate "C"}}
                for update skip locked
            ),
            (
                {{entry what = r.ctid; queue = (select f.id from facts f); after = >= ''}}
                for update skip locked
            )
        )
        and r.id > 0 and (r.expires_at is null or r.expires_at > (select f.now from facts f))
    returning r.id
)
