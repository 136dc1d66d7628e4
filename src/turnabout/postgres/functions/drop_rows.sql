-- Remove all rows of a queue but its own, its messages and their places.
create or replace function turnabout.drop_rows(queue_id int) returns void
language plpgsql as $$
declare
    v_last record;
begin
    delete from turnabout.lease l where l.queue_id = drop_rows.queue_id;
    delete from turnabout.slot s where s.queue_id = drop_rows.queue_id;
    delete from turnabout.queue_limit l where l.queue_id = drop_rows.queue_id;
    delete from turnabout.slot_change c where c.queue_id = drop_rows.queue_id;
    delete from turnabout.channel c where c.queue_id = drop_rows.queue_id;
    delete from turnabout.wake w where w.queue_id = drop_rows.queue_id;
    -- Two statements, each with an index.
    with gone as (
        delete from turnabout.history h where h.queue_id = drop_rows.queue_id and h.outcome = 1
        returning h.xid, h.id
    )
    select g.xid, g.id into v_last from gone g order by g.xid desc, g.id desc limit 1;
    perform turnabout.note_floor(v_last.xid, v_last.id);
    with gone as (
        delete from turnabout.history h where h.queue_id = drop_rows.queue_id and h.outcome > 1
        returning h.xid, h.id
    )
    select g.xid, g.id into v_last from gone g order by g.xid desc, g.id desc limit 1;
    perform turnabout.note_floor(v_last.xid, v_last.id);
    delete from turnabout.tally t where t.queue_id = drop_rows.queue_id;
    delete from turnabout.dedup d where d.queue_id = drop_rows.queue_id;
    delete from turnabout.event e where e.queue_id = drop_rows.queue_id;
end
$$;
