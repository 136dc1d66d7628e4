-- Let the leases of messages that the caller has locked run until an instant, never shorter than
-- they run already: as a whole, or, where a lease has other messages, each by a note of its own.
-- Answers with the instants, in their order; null where there is no such lease.
create or replace function turnabout.extend_leases(ids bigint[], leases bigint[], until_ms bigint)
returns bigint[]
language plpgsql as $$
declare
    v_until bigint[] := array(
        select (
            select greatest(l.until, until_ms, (
                select e.until from turnabout.extension e where e.id = t.id and e.lease = t.lease
            ))
            from turnabout.lease l
            where l.id = t.lease
        )
        from unnest(ids, leases) with ordinality t (id, lease, nr)
        order by t.nr
    );
    v_whole bigint[] := array(
        select l.id
        from (select t.lease, count(*) as count from unnest(leases) t (lease) group by t.lease) c
        join turnabout.lease l on l.id = c.lease and cardinality(l.ids) = c.count
        for update of l skip locked
    );
begin
    update turnabout.lease l
    set until = greatest(l.until, until_ms)
    where l.id = any (v_whole);
    insert into turnabout.extension (id, lease, until)
    select t.id, t.lease, t.until
    from unnest(ids, leases, v_until) t (id, lease, until)
    join turnabout.lease l on l.id = t.lease and l.until < t.until
    on conflict (id) do update set lease = excluded.lease, until = excluded.until;
    return v_until;
end
$$;
