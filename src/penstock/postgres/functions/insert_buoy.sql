-- One buoy. The newest has the lowest id, so it is the one that a skip scan lands on.
create or replace function penstock.insert_buoy(
    queue_id int, channel text, priority smallint, mark bigint
) returns void
language sql as $$
    insert into penstock.message (
        id, queue_id, channel, priority, status, limited, at, sent_at, expires_at,
        payload, content_type
    )
    overriding system value
    values (
        -nextval(pg_get_serial_sequence('penstock.message', 'id')), queue_id, channel, priority, 0,
        false, mark, penstock.clock_ms(), 0, '', ''
    )
$$;
