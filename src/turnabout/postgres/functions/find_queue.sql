-- The queue's row, or SQLSTATE PQ404: the client makes a QueueNotFound of it. After a crash of the
-- server the first that comes by here has rebuilt what it emptied. Where the caller's transaction
-- can't, those go on who only settle leases (`places` is false): there are none any more.
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
    if not exists (select from turnabout.whole) then
        perform turnabout.rebuild(find_queue.places);
    end if;
    return found_queue;
end
$$;
