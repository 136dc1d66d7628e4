-- From now on an ack in this queue has more to do than to delete, so its leases are plain no more.
-- A lease that somebody else holds just now is being ended.
create or replace function turnabout.keep_more_of_leases(queue_id int) returns void
language sql as $$
    update turnabout.lease l
    set plain_queue = null
    where l.ctid = any (array(
        select o.ctid from turnabout.lease o
        where o.queue_id = keep_more_of_leases.queue_id and o.plain_queue is not null
        for update skip locked
    ))
$$;
