-- Lease messages that the caller has taken from where they stood, by the everyday statement's part.
-- An entry without a message, which a person's hand may leave behind, is gone by now.
create or replace function turnabout.lease_taken(
    queue_id int, ids bigint[], now_ms bigint, lease_ms bigint
) returns setof turnabout.delivery language plpgsql as $$
begin
    return query
    with facts as (
        select lease_taken.queue_id as id, now_ms as now, lease_taken.lease_ms, false as keeps,
            null::text as plain_queue
    ),
    gone as (select t.id from unnest(ids) t (id)), {{lease_many}}
    select * from taken;
end $$;
