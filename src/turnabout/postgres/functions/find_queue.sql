-- The queue's row, or SQLSTATE PQ404: the client makes a QueueNotFound of it. Where the caller asks
-- about places (whether messages are ready, scheduled or leased), the first that comes by here after
-- a crash of the server rebuilds them.
create or replace function turnabout.find_queue(queue text, places boolean default true)
returns turnabout.queue
language plpgsql as $$
declare
    found_queue turnabout.queue;
begin
    select * into found_queue from turnabout.queue q where q.name = find_queue.queue;
    if not found then
        raise exception 'there is no queue %', quote_literal(find_queue.queue)
            using errcode = 'PQ404', detail = coalesce(find_queue.queue, ''),
            hint = 'send to it, or call turnabout.queue_create';
    end if;
    if find_queue.places and not exists (select from turnabout.whole) then
        perform turnabout.rebuild();
    end if;
    return found_queue;
end
$$;
