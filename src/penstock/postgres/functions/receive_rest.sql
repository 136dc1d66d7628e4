-- The rest of a turn: a channel of weight w that its receiver has served fewer than w times comes first.
create or replace function penstock.receive_rest(
    queue penstock.queue, channel text, served int, most int, now_ms bigint, until_ms bigint
) returns setof penstock.delivery
language plpgsql as $$
declare
    v_weight int;
begin
    select coalesce(c.weight, queue.weight, 1) into v_weight
    from penstock.channel c
    where c.queue_id = queue.id and c.name = receive_rest.channel and c.awake
    for update skip locked;
    if v_weight > served then
        return query select * from penstock.receive_limited(
            queue, array[receive_rest.channel], 1, most, now_ms, until_ms, v_weight - served);
    end if;
end
$$;
