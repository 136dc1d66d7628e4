-- Channels of these names (null: all) are limited from now on: what is leased or due later in them
-- counts. (What is ready moves over bit by bit, see move_over.)
create or replace function turnabout.limit_others(queue_id int, channels text[]) returns void
language plpgsql as $$
begin
    update turnabout.scheduled s
    set limited = true
    where s.ctid = any (array(
        select e.ctid from turnabout.scheduled e
        where e.queue_id = limit_others.queue_id and not e.limited
            and (channels is null or e.channel = any (channels))
        for update skip locked
    ));
    perform turnabout.put_slots(queue_id, channels);
end
$$;
