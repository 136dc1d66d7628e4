-- Channels of these names (null: all) are limited from now on: what is leased or due later in them
-- counts. (What is ready moves over bit by bit, see move_over.)
create or replace function turnabout.limit_others(queue_id int, channels text[]) returns void
language plpgsql as $$
begin
    perform turnabout.keep_more_of_leases(queue_id);
    update turnabout.scheduled s
    set limited = true
    where s.ctid = any (array(
        select e.ctid from turnabout.scheduled e
        where e.queue_id = limit_others.queue_id and not e.limited
            and (channels is null or e.channel = any (channels))
        for update skip locked
    ));
    insert into turnabout.slot (id, queue_id, attempt, channel)
    select m.id, m.queue_id, t.attempt, m.channel
    from turnabout.lease l
    cross join unnest(l.ids, l.attempts) t (id, attempt)
    join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
    where l.queue_id = limit_others.queue_id
        and (channels is null or m.channel = any (channels))
        and not exists (
            select from turnabout.slot s
            where s.queue_id = m.queue_id and s.channel = m.channel and s.id = m.id
                and s.attempt = t.attempt
        );
end
$$;
