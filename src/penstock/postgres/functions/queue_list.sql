-- One queue, or all by name. Volatile, so that it sees a queue which another transaction has made
-- since the statement began, and which queue_create has just waited for.
create or replace function penstock.queue_list(queue text default null)
returns setof penstock.queue
language plpgsql as $$
#variable_conflict use_column
begin
    if queue_list.queue is not null then
        return next penstock.find_queue(queue_list.queue);
        return;
    end if;
    return query select * from penstock.queue q order by q.name;
end
$$;
