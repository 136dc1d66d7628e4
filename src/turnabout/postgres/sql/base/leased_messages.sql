-- Leased messages of some queues, with their attempt, lease and its times.
create or replace function turnabout.leased_messages(queues int[])
returns table (id bigint, queue_id int, channel text, attempt int, lease bigint, leased_at bigint,
    until bigint)
language sql stable as $$
    select m.id, m.queue_id, m.channel::text, t.attempt, l.id, l.leased_at,
        {{ends_at message = m.id; lease = l}}
    from turnabout.lease l cross join unnest(l.ids, l.attempts) t (id, attempt)
    join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        and m.queue_id = l.queue_id
    where l.queue_id = any (queues)
$$;
