-- Where a message stands: ready, scheduled, leased, or gone.
-- plans: pinned
create or replace function turnabout.place_of(queue_id int, id bigint) returns text
language plpgsql as $$
declare
    v_message turnabout.message;
begin
    select m.* into v_message from turnabout.message m
    where m.id = place_of.id and m.queue_id + 0 = place_of.queue_id;
    return case
        when v_message.id is null then 'gone'
        when exists (
            select from turnabout.scheduled s
            where s.queue_id = place_of.queue_id and s.at = v_message.at and s.id = v_message.id
        ) then 'scheduled'
        when exists (
            select from turnabout.ready r
            where r.queue_id = place_of.queue_id and r.limited = any ('{false,true}')
                and r.channel = v_message.channel and r.priority = v_message.priority
                and r.id = v_message.id
        ) then 'ready'
        when exists (select from turnabout.whole) then 'leased'
        else 'ready'  -- since a crash nothing is leased
    end;
end
$$;
