-- Unfinished messages of a queue, from its tally: the cost does not grow with the backlog.
create or replace function turnabout.size_of(queue_id int) returns bigint language sql stable as $$
    select coalesce(sum(c.sent - c.done - c.dead - c.cancelled - c.expired), 0)::bigint
    from turnabout.counts_of(array[size_of.queue_id]) c
$$;
