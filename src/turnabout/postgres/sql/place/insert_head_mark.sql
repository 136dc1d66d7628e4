-- Insert a head mark. The newest has the lowest id, so a skip scan meets it first.
create or replace function turnabout.insert_head_mark(
    queue_id int, channel text, priority smallint, mark bigint
) returns void language sql as $$
    insert into turnabout.ready (id, at, expires_at, queue_id, priority, limited, channel)
    values (-nextval('turnabout.head_mark_number'), mark, 0, queue_id, priority, false, channel)
$$;
