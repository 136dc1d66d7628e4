-- From now on more is to be done when a message of the queue is done than that it goes: its leases
-- say so no longer. One that somebody else holds just now is being ended.
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
