-- Remove a queue with its unfinished messages, policies, history and counts. Refused (SQLSTATE
-- PQ409) while another queue's messages go to it when they die. Answers with the number of
-- messages.
-- plans: free
create or replace function turnabout.queue_delete(queue text) returns bigint
language plpgsql as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(queue_delete.queue, false);
    v_user text;
    v_count bigint;
    v_last record;
begin
    select q.name into v_user from turnabout.queue q
    where q.dead_letter = v_queue.name and q.id <> v_queue.id
    limit 1;
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
    delete from turnabout.message m where m.queue_id = v_queue.id;
    get diagnostics v_count = row_count;
    delete from turnabout.ready r where r.queue_id = v_queue.id;
    delete from turnabout.scheduled s where s.queue_id = v_queue.id;
    delete from turnabout.lease l where l.queue_id = v_queue.id;
    delete from turnabout.slot s where s.queue_id = v_queue.id;
    delete from turnabout.queue_limit l where l.queue_id = v_queue.id;
    delete from turnabout.slot_change c where c.queue_id = v_queue.id;
    delete from turnabout.channel c where c.queue_id = v_queue.id;
    delete from turnabout.wake w where w.queue_id = v_queue.id;
    -- Two statements, each with an index.
    with gone as (
        delete from turnabout.history h where h.queue_id = v_queue.id and h.outcome = 1
        returning h.xid, h.id
    )
    select g.xid, g.id into v_last from gone g order by g.xid desc, g.id desc limit 1;
    perform turnabout.note_floor(v_last.xid, v_last.id);
    with gone as (
        delete from turnabout.history h where h.queue_id = v_queue.id and h.outcome > 1
        returning h.xid, h.id
    )
    select g.xid, g.id into v_last from gone g order by g.xid desc, g.id desc limit 1;
    perform turnabout.note_floor(v_last.xid, v_last.id);
    delete from turnabout.tally t where t.queue_id = v_queue.id;
    delete from turnabout.dedup d where d.queue_id = v_queue.id;
    delete from turnabout.event e where e.queue_id = v_queue.id;
    update turnabout.redrive r
    set state = 'cancelled', finished_at = turnabout.clock_ms(), next_at = null
    where r.queue_id = v_queue.id and r.state = 'running';
    return v_count;
end
$$;
