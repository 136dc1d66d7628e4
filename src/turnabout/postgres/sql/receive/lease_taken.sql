-- Lease messages that the caller has taken from where they stood: one row for all of them, and one
-- for each in the answer. An entry without a message, which a person's hand may leave behind, is
-- gone by now.
create or replace function turnabout.lease_taken(
    queue_id int, ids bigint[], now_ms bigint, lease_ms bigint, bare boolean,
    plain_queue text default null, keeps boolean default false
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_lease bigint;
begin
    if cardinality(ids) = 0 then
        return;
    end if;
    v_lease := nextval('turnabout.lease_number');
    return query
    with taken (
        id, attempt, channel, priority, payload, content_type, headers, state, failures, crashes,
        sent_at, origin, at, duration, lease
    ) as materialized (
        select m.id, m.attempt + 1, m.channel::text, m.priority,
            case when not bare then m.payload end, turnabout.type_of(m.content_type),
            case when not bare then m.headers end, case when not bare then m.state end,
            m.failures, m.crashes, m.sent_at, m.origin, now_ms + lease_ms, lease_ms, v_lease
        from turnabout.message m
        where m.id = any (ids)
    ),
    leased as (
        insert into turnabout.lease (
            id, until, leased_at, queue_id, keeps, ids, attempts, plain_queue
        )
        select v_lease, now_ms + lease_taken.lease_ms, now_ms, lease_taken.queue_id,
            lease_taken.keeps, array_agg(t.id), array_agg(t.attempt), lease_taken.plain_queue
        from taken t
        having count(*) > 0
    )
    select * from taken;
end
$$;
