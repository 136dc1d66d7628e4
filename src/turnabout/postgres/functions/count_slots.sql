-- A queue has limits of its own from now on, or somebody may have given slots back without a note:
-- what is leased has slots, and the next receive counts them.
create or replace function turnabout.count_slots(queue_id int) returns void
language plpgsql as $$
begin
    perform turnabout.put_slots(queue_id, null);
    insert into turnabout.slot_change (queue_id) values (count_slots.queue_id);
end
$$;
