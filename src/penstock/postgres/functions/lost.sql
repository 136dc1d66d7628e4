-- For receipts that are not held: their place in the caller's list, and what the message is now.
create or replace function penstock.lost(queue_id int, ids bigint[], held bigint[])
returns table (nr int, now text)
language plpgsql as $$
#variable_conflict use_column
begin
    return query
    select t.nr::int,
        coalesce(
            (select case m.status when 0 then 'ready' when 1 then 'scheduled' else 'leased' end
            from penstock.message m
            where m.id = t.id and m.queue_id = lost.queue_id),
            'gone')
    from unnest(ids) with ordinality t (id, nr)
    where t.id <> all (held);
end
$$;
