-- End messages of one lease as done, all or none; the lease goes if nothing of it is left.
{{settled
    found = select l.ctid, l.queue_id, l.leased_at,
        cardinality(l.ids) = cardinality($ids::bigint[]) as is_whole,
        coalesce($now::bigint, turnabout.clock_ms()) as now
    from turnabout.lease l;
    matching = (l.ids = $ids::bigint[] or l.ids @> $ids::bigint[])
        and $attempt::int = all (l.attempts);
    returning = ;
    emptied = {{emptied}},;
    which = m.id = any ($ids::bigint[])}},
{{kept}}{{counted
    done = select min(e.queue_id), case when count(*) = cardinality($ids::bigint[]) then count(*)
            else turnabout.not_all_held() end
    from ended e
    having exists (select from held)}}
