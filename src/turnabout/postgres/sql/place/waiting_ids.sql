-- The queue's messages that have a place, as far as committed.
create or replace function turnabout.waiting_ids(queue_id int, ids bigint[]) returns bigint[]
language plpgsql as $$
begin
    return array(
        select m.id from turnabout.message m
        where m.id = any (ids) and m.queue_id + 0 = waiting_ids.queue_id and (
            exists (
                select from turnabout.ready r
                where r.queue_id = m.queue_id and r.limited = any ('{false,true}')
                    and r.channel = m.channel and r.priority = m.priority and r.id = m.id
            )
            or exists (
                select from turnabout.scheduled s
                where s.queue_id = m.queue_id and s.at = m.at and s.id = m.id
            )
        )
    );
end
$$;
