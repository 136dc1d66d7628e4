-- Leased messages of a queue that no limit counts.
create or replace function turnabout.leases_without_slots(queue_id int)
returns table (id bigint, attempt int, channel text) language sql stable as $$
    select m.id, t.attempt, m.channel::text from turnabout.lease l
    cross join unnest(l.ids, l.attempts) t (id, attempt)
    join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        and m.queue_id = l.queue_id
    where l.queue_id = leases_without_slots.queue_id and not exists (
        select from turnabout.slot s
        where s.queue_id = m.queue_id and s.channel = m.channel and s.id = m.id
            and s.attempt = t.attempt
    )
$$;
