-- Bytes of the payloads of unfinished messages, by queue. Each branch has the index of its kind, so
-- that a few queues cost what they hold. (A length is known without what is stored aside.)
create or replace function turnabout.bytes_of(queues int[])
returns table (queue_id int, bytes bigint)
language sql stable as $$
    select m.queue_id, sum(m.bytes)::bigint
    from (
        select r.queue_id, octet_length(r.payload) as bytes
        from turnabout.message r
        where r.queue_id = any (queues) and r.status = 0 and not r.limited and r.id > 0
        union all
        select r.queue_id, octet_length(r.payload)
        from turnabout.message r
        where r.queue_id = any (queues) and r.status = 0 and r.limited and r.id > 0
        union all
        select r.queue_id, octet_length(r.payload)
        from turnabout.message r
        where r.queue_id = any (queues) and r.status > 0 and r.id > 0
    ) m
    group by m.queue_id
$$;
