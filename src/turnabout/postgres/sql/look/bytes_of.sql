-- Payload bytes of unfinished messages, by queue. Messages are found by their places, so that a few
-- queues cost only their own. (A length is known without reading payloads stored aside.)
create or replace function turnabout.bytes_of(queues int[])
returns table (queue_id int, bytes bigint) language sql stable as $$  -- plans: pinned
    select m.queue_id, sum(octet_length(m.payload))::bigint from (
        select r.id from turnabout.ready r where r.queue_id = any (queues) and r.id > 0
        union all
        select s.id from turnabout.scheduled s where s.queue_id = any (queues)
        union all
        select l.id from turnabout.leased_messages(queues) l
    ) u
    join turnabout.message m on m.id = u.id group by m.queue_id
$$;
