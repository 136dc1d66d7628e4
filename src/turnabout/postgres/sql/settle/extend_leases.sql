-- Let the leases of messages that the caller has locked run until an instant: exactly, or never
-- shorter than they run already. As a whole, or, where a lease has other messages, each by a note
-- of its own. Answers with the instants, in their order; null where there is no such lease.
--
-- A lease whose first message ends sooner is to be found by that: it is locked for it. One that
-- another transaction holds is not waited for, as in lock_leases: null.
create or replace function turnabout.extend_leases(
    ids bigint[], leases bigint[], until_ms bigint, exact boolean
) returns bigint[] language plpgsql as $$
declare
    v_locked bigint[]; v_whole bigint[]; v_until bigint[];
begin
    -- 1. The leases.
    for i in 0 .. 5 loop
        exit when not exact;
        v_locked := array(
            select l.id from turnabout.lease l where l.id = any (leases) for update skip locked
        );
        exit when cardinality(v_locked) = (
            select count(*) from turnabout.lease l where l.id = any (leases)
        );
        perform pg_sleep(0.002 * (1 << i));
    end loop;
    v_whole := array(
        select l.id
        from (select t.lease, count(*) as count from unnest(leases) t (lease) group by t.lease) c
        join turnabout.lease l on l.id = c.lease and cardinality(l.ids) = c.count
        where not exact or l.id = any (v_locked) for update of l skip locked
    );
    v_until := array(
        select (
            select case when exact then until_ms else greatest(until_ms,
                {{ends_at message = t.id; lease = l}}) end
            from turnabout.lease l where l.id = t.lease and (not exact or l.id = any (v_locked))
        )
        from unnest(ids, leases) with ordinality t (id, lease, nr) order by t.nr
    );

    -- 2. Their ends. `until` is the first one.
    update turnabout.lease l
    set until = case when exact then until_ms else greatest(l.until, until_ms) end,
        rest_until = null  -- what runs longer than this gets a note below
    where l.id = any (v_whole);
    if exact then
        update turnabout.lease l set until = until_ms, rest_until = coalesce(l.rest_until, l.until)
        where l.id = any (v_locked) and l.id <> all (v_whole) and l.until > until_ms;
    end if;
    insert into turnabout.extension (id, lease, until) select t.id, t.lease, t.until
    from unnest(ids, leases, v_until) t (id, lease, until) join turnabout.lease l on l.id = t.lease
    where {{ends_at message = t.id; lease = l}} <> t.until
    on conflict (id) do update set lease = excluded.lease, until = excluded.until;
    return v_until;
end $$;
