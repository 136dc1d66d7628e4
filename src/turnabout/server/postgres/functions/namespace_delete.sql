-- Remove a namespace with its tokens and what is noted of its redrives; whether it was there.
-- Refused (SQLSTATE PQ409) while it has queues or schedules.
create or replace function turnabout_server.namespace_delete(namespace text) returns boolean
language plpgsql as $$  -- plans: free
declare
    v_left text; v_found boolean;
begin
    -- 1. A call that makes a token meanwhile waits for this row.
    perform from turnabout.namespace n where n.name = namespace_delete.namespace for update;
    v_found := found;

    -- 2. A schedule would make its queue again.
    select 'queue ' || quote_literal(q.name) into v_left from turnabout.queue q
    where left(q.name, greatest(position('/' in q.name), 1) - 1) = namespace_delete.namespace
    order by q.name limit 1;
    if v_left is null then
        select 'schedule ' || quote_literal(s.name) into v_left from turnabout.schedule s
        where left(s.name, greatest(position('/' in s.name), 1) - 1) = namespace_delete.namespace
        order by s.name limit 1;
    end if;
    if v_left is not null then
        raise exception 'the namespace % has the %',
            quote_literal(namespace_delete.namespace), v_left
            using errcode = 'PQ409', hint = 'delete its queues and schedules first';
    end if;

    -- 3. The next one of that name sees nothing of this one.
    delete from turnabout.redrive r
    where left(r.queue, greatest(position('/' in r.queue), 1) - 1) = namespace_delete.namespace;
    delete from turnabout.token t where t.namespace = namespace_delete.namespace;
    delete from turnabout.namespace n where n.name = namespace_delete.namespace;
    return v_found;
end $$;
