-- For each receipt the number of its lease; null if that is over, or not of this message. `leases`:
-- one for each, or one for all. A receipt without one (null, or 0) is good if the same attempt
-- can't have been given out twice: for messages sent since the last rebuild, and for leases of a
-- move, whose numbers are below zero. The greatest bigint stands for any lease.
--
-- A nested loop over these lists would be quadratic, and the planner expects short lists.
create or replace function turnabout.leases_of(
    queue_id int, ids bigint[], attempts int[], leases bigint[]
) returns bigint[] language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
declare
    v_one bigint := case when cardinality(leases) = 1 then leases[1] end;
    v_among bigint[] := leases;
    v_any bigint := 9223372036854775807;
begin
    -- 1. As nearly always, all are of one lease.
    if v_one > 0 and cardinality(attempts) = 1 and (
        select turnabout.lease_holds(l.ids, l.attempts, leases_of.ids, leases_of.attempts[1])
        from turnabout.lease l where l.id = v_one and l.queue_id + 0 = leases_of.queue_id
    ) then
        return array_fill(v_one, array[cardinality(ids)]);
    end if;

    -- 2. At most one lease is of a message with that attempt.
    if leases is null or leases && array[0, v_any]
        or array_position(leases, null) is not null then
        v_among := array(select l.id from turnabout.lease l where l.queue_id = leases_of.queue_id);
    end if;
    return array(
        select case
            when coalesce(v_one, t.lease, 0) in (v_any, h.lease) then h.lease
            when coalesce(v_one, t.lease, 0) = 0 and (h.lease < 0 or exists (
                select from turnabout.message m
                where m.id = t.id and m.sent_at >= (select w.since from turnabout.whole w)
            )) then h.lease
        end
        from unnest(ids, attempts, leases) with ordinality t (id, attempt, lease, nr)
        left join (
            select l.id as lease, u.id, u.attempt from turnabout.lease l
            cross join unnest(l.ids, l.attempts) u (id, attempt)
            where l.id = any (v_among) and l.queue_id + 0 = leases_of.queue_id
        ) h on h.id = t.id and h.attempt = coalesce(t.attempt, attempts[1])
        order by t.nr
    );
end $$;
