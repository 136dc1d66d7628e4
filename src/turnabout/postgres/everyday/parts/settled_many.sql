-- End messages of one lease as done, all or none; the lease goes if nothing of it is left.
{{settled
    found = select l.ctid, l.queue_id, l.leased_at,
        cardinality(l.ids) = cardinality($ids::bigint[]) as is_whole
    from turnabout.lease l;
    matching = (l.ids = $ids::bigint[] or l.ids @> $ids::bigint[])
        and $attempt::int = all (l.attempts);
    returning = ;
    emptied = {{emptied}},;
    which = m.id = any ($ids::bigint[])}},
{{kept}}{{counted
    done = select h.queue_id, case when e.count = cardinality($ids::bigint[]) then e.count
            else turnabout.not_all_held() end
    from held h
    cross join (select count(*) as count from ended) e}}
