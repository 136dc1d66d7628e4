-- Lease up to max_messages from the line without limits, in the everyday case.
create or replace function turnabout.receive_many(
    queue_id int, max_messages int, start text, now_ms bigint, lease_ms bigint, bare boolean
) returns setof turnabout.delivery
language plpgsql as $$
begin
    return query select * from turnabout.lease_taken(
        queue_id,
        (turnabout.take_many(
            queue_id, max_messages, turnabout.quantum(max_messages), start, false, now_ms)).ids,
        now_ms, lease_ms, bare);
end
$$;
