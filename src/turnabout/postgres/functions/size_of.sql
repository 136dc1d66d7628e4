-- Unfinished messages of a queue, from its tally: the cost does not grow with the backlog.
create or replace function turnabout.size_of(queue_id int) returns bigint
language sql stable as $$
    select coalesce(sum(t.sent - t.done - t.dead - t.cancelled - t.expired), 0)::bigint
    from turnabout.tally t
    where t.queue_id = size_of.queue_id
$$;
