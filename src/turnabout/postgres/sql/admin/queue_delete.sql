-- Remove a queue with its unfinished messages, policies, history and counts. Refused (SQLSTATE
-- PQ409) while another queue's messages go to it when they die. Answers with the number of
-- messages. A message whose send is still under way goes to the queue that has the name by then, or
-- is deleted, too (sweep_deleted).
create or replace function turnabout.queue_delete(queue text) returns bigint
language plpgsql as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(queue_delete.queue, false);
    v_user text; v_count bigint;
begin
    select q.name into v_user from turnabout.queue q
    where q.dead_letter = v_queue.name and q.id <> v_queue.id limit 1;
    if found then
        raise exception 'queue % is where dead messages of % go',
            quote_literal(v_queue.name), quote_literal(v_user)
            using errcode = 'PQ409', hint = 'delete that queue first, or change its dead_letter';
    end if;
    -- Senders with keys hold entries, and wait for others: so this waits for them, holding nothing.
    if exists (select from turnabout.dedup d where d.queue_id = v_queue.id) then
        perform turnabout.lock_keys(v_queue.name, null);
    end if;
    delete from turnabout.queue q where q.id = v_queue.id;
    -- Messages last: a place without a message is swept later, a message without a place is lost.
    delete from turnabout.ready r where r.queue_id = v_queue.id;
    delete from turnabout.scheduled s where s.queue_id = v_queue.id;
    perform turnabout.drop_rows(v_queue.id);
    delete from turnabout.message m where m.queue_id = v_queue.id;
    get diagnostics v_count = row_count;
    update turnabout.redrive r
    set state = 'cancelled', finished_at = turnabout.clock_ms(), next_at = null
    where r.queue_id = v_queue.id and r.state = 'running';
    insert into turnabout.recent_change (queue_id, queue) values (v_queue.id, v_queue.name);
    return v_count;
end $$;
