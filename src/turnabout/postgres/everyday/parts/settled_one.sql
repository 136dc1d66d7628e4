-- End one message as done, that is all of its lease.
{{settled
    found = delete from turnabout.lease l;
    matching = l.ids = array[$id::bigint] and l.attempts = array[$attempt::int];
    returning = returning l.queue_id, l.leased_at,
        coalesce($now::bigint, turnabout.clock_ms()) as now;
    emptied = ;
    which = m.id = $id::bigint}},
{{kept}}{{counted done = select e.queue_id, 1 from ended e}}
