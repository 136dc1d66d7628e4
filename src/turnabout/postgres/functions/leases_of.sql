-- For each receipt the number of its lease, null where that is no more or not of this message.
-- `leases`: one for each, or one for all. A receipt that has none (null, or 0) is one of before a
-- move, and good for leases that came with it only: their numbers are below zero.
--
-- A nested loop over these lists would take their number squared, and the planner expects few.
create or replace function turnabout.leases_of(
    queue_id int, ids bigint[], attempts int[], leases bigint[]
) returns bigint[]
language plpgsql
set enable_hashjoin = on
set enable_nestloop = off
as $$
declare
    v_one bigint := case when cardinality(leases) = 1 then leases[1] end;
    v_among bigint[] := leases;
begin
    -- 1. As nearly always, all are of one lease.
    if v_one > 0 and cardinality(attempts) = 1 and (
        select turnabout.lease_holds(l.ids, l.attempts, leases_of.ids, leases_of.attempts[1])
        from turnabout.lease l
        where l.id = v_one and l.queue_id + 0 = leases_of.queue_id
    ) then
        return array_fill(v_one, array[cardinality(ids)]);
    end if;

    -- 2. At most one lease is of a message with that attempt.
    if leases is null or 0 = any (leases) or array_position(leases, null) is not null then
        v_among := leases || array(
            select l.id from turnabout.lease l
            where l.id < 0 and l.queue_id + 0 = leases_of.queue_id
        );
    end if;
    return array(
        select case when h.lease = coalesce(
                nullif(v_one, 0), nullif(t.lease, 0), least(h.lease, -1))
            then h.lease end
        from unnest(ids, attempts, leases) with ordinality t (id, attempt, lease, nr)
        left join (
            select l.id as lease, u.id, u.attempt
            from turnabout.lease l
            cross join unnest(l.ids, l.attempts) u (id, attempt)
            where l.id = any (v_among) and l.queue_id + 0 = leases_of.queue_id
        ) h on h.id = t.id and h.attempt = coalesce(t.attempt, attempts[1])
        order by t.nr
    );
end
$$;
