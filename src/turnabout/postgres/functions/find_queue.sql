-- The queue's row, or SQLSTATE PQ404: the client makes a QueueNotFound of it.
create or replace function turnabout.find_queue(queue text) returns turnabout.queue
language plpgsql stable as $$
declare
    found_queue turnabout.queue;
begin
    select * into found_queue from turnabout.queue q where q.name = find_queue.queue;
    if not found then
        raise exception 'there is no queue %', quote_literal(find_queue.queue)
            using errcode = 'PQ404', detail = coalesce(find_queue.queue, ''),
            hint = 'send to it, or call turnabout.queue_create';
    end if;
    return found_queue;
end
$$;
