-- Mark delayed messages of channels that are limited now. Ready ones move bit by bit: move_over.
create or replace function turnabout.mark_scheduled_as_limited(queue_id int) returns void
language sql as $$
    update turnabout.scheduled s set limited = true where s.ctid = any (array(
        select e.ctid from turnabout.scheduled e
        join turnabout.queue q on q.id = e.queue_id
        where e.queue_id = mark_scheduled_as_limited.queue_id and not e.limited
            and (q.limited or exists (
                select from turnabout.channel c where c.queue_id = e.queue_id and c.name = e.channel
            ))
        for update of e skip locked
    ))
$$;
