-- A lease all of whose messages end goes.
emptied as (
    delete from turnabout.lease l where l.ctid = (select h.ctid from held h where h.is_whole)
)
