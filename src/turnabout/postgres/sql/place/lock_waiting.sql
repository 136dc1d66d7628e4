-- Lock waiting messages in their places; answers with those that no other transaction holds. Like
-- `lock_leases`, it waits for no row, but tries again a few times.
create or replace function turnabout.lock_waiting(
    queue_id int, ids bigint[], tries int default 5
) returns bigint[] language plpgsql as $$
declare
    v_held bigint[];
begin
    for i in 1 .. tries loop
        v_held := array(
            select e.id from turnabout.message m
            cross join unnest(array[false, true]) side (limited)
            join turnabout.ready e on e.queue_id = m.queue_id and e.limited = side.limited
                and e.channel = m.channel and e.priority = m.priority and e.id = m.id
            where m.id = any (ids) and m.queue_id + 0 = lock_waiting.queue_id
            for update of e skip locked
        ) || array(
            select e.id from turnabout.message m
            join turnabout.scheduled e on e.queue_id = m.queue_id and e.at = m.at and e.id = m.id
            where m.id = any (ids) and m.queue_id + 0 = lock_waiting.queue_id
            for update of e skip locked
        );
        exit when i = tries or cardinality(v_held) = cardinality(ids)
            or cardinality(v_held) = cardinality(turnabout.waiting_ids(queue_id, ids));
        perform pg_sleep(0.002 * (1 << i - 1));
    end loop;
    return v_held;
end $$;
