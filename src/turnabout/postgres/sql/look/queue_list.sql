-- One queue, or all by name, or those of a namespace, behind the name `after`; one of another
-- namespace is not found.
-- Volatile, so that it sees a queue which another transaction has made since the statement began,
-- and which queue_create has just waited for.
create or replace function turnabout.queue_list(
    queue text default null, namespace text default null, after text default null,
    most int default null
) returns setof turnabout.queue language plpgsql as $$  -- plans: free
begin
    if queue_list.queue is not null then
        return next turnabout.find_queue(case
            when queue_list.namespace is null
                or left(queue_list.queue, greatest(position('/' in queue_list.queue), 1) - 1)
                    = queue_list.namespace
            then queue_list.queue
        end, false);
    elsif queue_list.namespace is not null then
        return query
        select q.* from turnabout.queue q
        where left(q.name, greatest(position('/' in q.name), 1) - 1) = queue_list.namespace
            and (queue_list.after is null or q.name > queue_list.after)
        order by q.name limit queue_list.most;
    else
        return query
        select q.* from turnabout.queue q
        where queue_list.after is null or q.name > queue_list.after order by q.name
        limit queue_list.most;
    end if;
end $$;
