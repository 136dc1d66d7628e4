-- Where a message stands: ready, scheduled, leased, or gone.
create or replace function turnabout.place_of(queue_id int, id bigint) returns text
language plpgsql as $$  -- plans: pinned
declare
    v_message turnabout.message;
begin
    select m.* into v_message from turnabout.message m
    where m.id = place_of.id and m.queue_id + 0 = place_of.queue_id;
    return case
        when v_message.id is null then 'gone'
        else coalesce(
            (select w.place from ({{waiting m = v_message}}) w),
            (select 'leased' from turnabout.whole),
            'ready'  -- since a crash nothing is leased
        )
    end;
end $$;
