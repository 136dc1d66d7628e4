-- Lease the first message that nobody holds of the next channel; at the end of the names, of the
-- first. One small statement, for the everyday case. (No name lies between a name and that name
-- with the least character after it.) Where it lands on a head mark, it goes on at its mark; if
-- nothing is there, it takes nothing.
create or replace function turnabout.receive_one(
    queue_id int, start text, now_ms bigint, lease_ms bigint, bare boolean, plain_queue text
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_walked bigint := turnabout.line_walked();
begin
    return query
    with gone as (
        delete from turnabout.ready r
        where r.ctid = (
            select head.ctid
            from (
                select first.*
                from (values (receive_one.start || chr(1)), ('')) lap (place)
                cross join lateral (
                    select e.channel, e.priority, case when e.id < 0 then e.at else e.id end as id
                    from turnabout.ready e
                    where e.queue_id = receive_one.queue_id and not e.limited
                        and e.channel >= lap.place collate "C"
                    order by e.channel, e.priority, e.id
                    limit 1
                ) first
                limit 1
            ) next
            cross join lateral (
                select e.ctid from turnabout.ready e
                where e.queue_id = receive_one.queue_id and not e.limited
                    and e.channel = next.channel and (e.priority, e.id) >= (next.priority, next.id)
                    and e.id + 0 > 0
                order by e.priority, e.id
                limit 1
                for update skip locked
            ) head
        )
        returning r.id
    ),
    taken (
        id, attempt, channel, priority, payload, content_type, headers, state, failures,
        crashes, sent_at, origin, at, duration, lease
    ) as materialized (
        select m.id, m.attempt + 1, m.channel::text, m.priority,
            case when not receive_one.bare then m.payload end, turnabout.type_of(m.content_type),
            case when not receive_one.bare then m.headers end,
            case when not receive_one.bare then m.state end,
            m.failures, m.crashes, m.sent_at, m.origin,
            receive_one.now_ms + receive_one.lease_ms, receive_one.lease_ms,
            nextval('turnabout.lease_number')
        from gone g
        join turnabout.message m on m.id = g.id
    ),
    leased as (
        insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts, plain_queue)
        select t.lease, t.at, receive_one.now_ms, receive_one.queue_id, array[t.id],
            array[t.attempt], receive_one.plain_queue
        from taken t
    )
    select * from taken;
    if found and turnabout.line_walked() > v_walked + 160 then
        perform turnabout.set_head_marks(receive_one.queue_id, l.ids)
        from turnabout.lease l
        where l.id = currval('turnabout.lease_number');
    end if;
end
$$;
