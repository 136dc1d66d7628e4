-- Each of these messages, which the caller leases, has a slot. Answers with their channels.
create or replace function turnabout.give_slots(queue_id int, ids bigint[]) returns text[]
language plpgsql as $$
declare
    v_channels text[];
begin
    with taken as (
        insert into turnabout.slot (id, queue_id, attempt, channel)
        select m.id, give_slots.queue_id, m.attempt + 1, m.channel from turnabout.message m
        where m.id = any (ids) returning channel
    )
    select array_agg(t.channel) into v_channels from taken t;
    return v_channels;
end $$;
