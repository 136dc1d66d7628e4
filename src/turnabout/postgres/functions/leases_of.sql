-- For each receipt the number of its lease, null where that is no more. `leases`: one for each, or
-- one for all. Where a receipt has none (null, or 0) all leases of the queue are searched.
create or replace function turnabout.leases_of(
    queue_id int, ids bigint[], attempts int[], leases bigint[]
) returns bigint[]
language plpgsql as $$
declare
    v_lease bigint;
begin
    if cardinality(leases) = 1 and leases[1] > 0 then
        select l.id into v_lease from turnabout.lease l
        where l.id = leases[1] and l.queue_id + 0 = leases_of.queue_id;
        return array_fill(v_lease, array[cardinality(ids)]);
    end if;
    return array(
        select case
            when t.lease > 0 then (
                select l.id from turnabout.lease l
                where l.id = t.lease and l.queue_id + 0 = leases_of.queue_id
            )
            else (
                select l.id from turnabout.lease l
                cross join unnest(l.ids, l.attempts) u (id, attempt)
                where l.queue_id = leases_of.queue_id and u.id = t.id
                    and u.attempt = coalesce(t.attempt, attempts[1])
                limit 1
            )
        end
        from unnest(ids, attempts, leases) with ordinality t (id, attempt, lease, nr)
        order by t.nr
    );
end
$$;
