-- Remove all rows of a queue but its own, its messages and their places.
create or replace function turnabout.drop_rows(queue_id int) returns void language plpgsql as $$
begin
    delete from turnabout.lease l where l.queue_id = drop_rows.queue_id;
    delete from turnabout.slot s where s.queue_id = drop_rows.queue_id;
    delete from turnabout.queue_limit l where l.queue_id = drop_rows.queue_id;
    delete from turnabout.slot_change c where c.queue_id = drop_rows.queue_id;
    delete from turnabout.channel c where c.queue_id = drop_rows.queue_id;
    delete from turnabout.wake w where w.queue_id = drop_rows.queue_id;
    perform turnabout.drop_history(
        drop_rows.queue_id, 9000000000000000, 9000000000000000, 2147483647);
    delete from turnabout.tally t where t.queue_id = drop_rows.queue_id;
    delete from turnabout.dedup d where d.queue_id = drop_rows.queue_id;
    delete from turnabout.event e where e.queue_id = drop_rows.queue_id;
end $$;
