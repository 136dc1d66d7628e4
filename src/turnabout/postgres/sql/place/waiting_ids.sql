-- The queue's messages that have a place, as far as committed.
create or replace function turnabout.waiting_ids(queue_id int, ids bigint[]) returns bigint[]
language plpgsql as $$
begin
    return array(
        select m.id from turnabout.message m
        where m.id = any (ids) and m.queue_id + 0 = waiting_ids.queue_id
            and exists ({{waiting m = m}})
    );
end $$;
