-- Lock a message that waits; answers with its attempt, null if it does not wait or others hold it.
-- Like `lock_leases`, it waits for no row, it only tries again a few times.
create or replace function turnabout.lock_waiting(queue_id int, id bigint, now_ms bigint)
returns int
language plpgsql as $$
declare
    v_attempt int;
begin
    for i in 0 .. 4 loop
        select m.attempt into v_attempt from turnabout.message m
        where m.id = lock_waiting.id and m.queue_id + 0 = lock_waiting.queue_id
            and m.status + 0 < 2 and (m.expires_at is null or m.expires_at > now_ms)
        for update skip locked;
        exit when found or i = 4 or not exists (
            select from turnabout.message m
            where m.id = lock_waiting.id and m.queue_id + 0 = lock_waiting.queue_id
                and m.status + 0 < 2
        );
        perform pg_sleep(0.002 * (1 << i));
    end loop;
    return v_attempt;
end
$$;
