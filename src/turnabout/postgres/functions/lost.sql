-- What the messages are now whose receipts are not held, in the caller's order, null for those that
-- are; null if all are held.
create or replace function turnabout.lost(queue_id int, ids bigint[], held bigint[]) returns text[]
language plpgsql as $$
begin
    if cardinality(held) = cardinality(ids) then
        return null;
    end if;
    return array(
        select case when t.held is null then turnabout.place_of(lost.queue_id, t.id) end
        from unnest(ids, turnabout.only(ids, ids, held)) with ordinality t (id, held, nr)
        order by t.nr
    );
end
$$;
