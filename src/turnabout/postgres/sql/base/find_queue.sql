-- The queue's row, or SQLSTATE PQ404: the client makes a QueueNotFound of it. After a crash of the
-- server it is refused until places are rebuilt (require_places). Without `places` it goes on: the
-- call only settles leases, of which there are none any more, or changes what a rebuild reads.
create or replace function turnabout.find_queue(queue text, places boolean default true)
returns turnabout.queue language plpgsql as $$
declare
    found_queue turnabout.queue;
begin
    if find_queue.places then
        lock table turnabout.ready in row exclusive mode;  -- see settle_changes
    end if;
    select * into found_queue from turnabout.queue q where q.name = find_queue.queue;
    if not found then
        raise exception 'there is no queue %', quote_literal(find_queue.queue)
            using errcode = 'PQ404', detail = coalesce(find_queue.queue, ''),
            hint = 'send to it, or call turnabout.queue_create';
    end if;
    if find_queue.places then perform turnabout.require_places(); end if;
    return found_queue;
end $$;
