-- Redrives of all queues, of one or of a namespace, the newest first.
create or replace function turnabout.redrive_list(
    queue text default null, most int default 20, namespace text default null
) returns setof turnabout.redrive language plpgsql stable as $$  -- plans: free
begin
    if redrive_list.namespace is not null then
        return query
        select r.* from turnabout.redrive r
        where left(r.queue, greatest(position('/' in r.queue), 1) - 1) = redrive_list.namespace
            and (redrive_list.queue is null or r.queue = redrive_list.queue)
        order by r.id desc limit most;
        return;
    end if;
    return query
    select r.* from turnabout.redrive r
    where redrive_list.queue is null or r.queue = redrive_list.queue order by r.id desc limit most;
end $$;
