-- One head mark. The newest has the lowest id, so it is the one that a skip scan lands on.
create or replace function turnabout.insert_head_mark(
    queue_id int, channel text, priority smallint, mark bigint
) returns void
language sql as $$
    insert into turnabout.message (
        id, queue_id, channel, priority, status, limited, at, sent_at, expires_at,
        payload, content_type
    )
    overriding system value
    values (
        -nextval(pg_get_serial_sequence('turnabout.message', 'id')), queue_id, channel, priority, 0,
        false, mark, turnabout.clock_ms(), 0, '', ''
    )
$$;
