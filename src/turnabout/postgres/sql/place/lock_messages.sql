-- Lock messages of a queue, wherever they stand; answers with the ids of those that were not held
-- by others all the while. Like `lock_leases`, it waits for no row, it only tries again a few
-- times.
create or replace function turnabout.lock_messages(queue_id int, ids bigint[]) returns bigint[]
language plpgsql as $$
declare
    v_held bigint[]; v_there int;
begin
    for i in 0 .. 5 loop
        v_held := array(
            select m.id from turnabout.message m
            where m.id = any (ids) and m.queue_id + 0 = lock_messages.queue_id
            for update skip locked
        );
        exit when cardinality(v_held) = cardinality(ids) or i = 5;
        select count(*) into v_there from turnabout.message m
        where m.id = any (ids) and m.queue_id + 0 = lock_messages.queue_id;
        exit when v_there <= cardinality(v_held);
        perform pg_sleep(0.002 * (1 << i));
    end loop;
    return v_held;
end $$;
