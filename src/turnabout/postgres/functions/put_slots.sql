-- What is leased in channels of these names (null: all) has slots from now on.
create or replace function turnabout.put_slots(queue_id int, channels text[]) returns void
language plpgsql as $$
begin
    perform turnabout.keep_more_of_leases(queue_id);
    with put as (
        insert into turnabout.slot (id, queue_id, attempt, channel)
        select m.id, m.queue_id, t.attempt, m.channel
        from turnabout.lease l
        cross join unnest(l.ids, l.attempts) t (id, attempt)
        join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        where l.queue_id = put_slots.queue_id
            and (channels is null or m.channel = any (channels))
            and not exists (
                select from turnabout.slot s
                where s.queue_id = m.queue_id and s.channel = m.channel and s.id = m.id
                    and s.attempt = t.attempt
            )
        returning id
    )
    insert into turnabout.slot_change (queue_id, freed)
    select q.id, -(select count(*) from put)
    from turnabout.queue q
    where q.id = put_slots.queue_id and q.queue_limited and exists (select from put);
end
$$;
