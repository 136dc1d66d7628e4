-- What the messages are now whose receipts are not held, in the caller's order, null for those that
-- are; null if all are held.
--
-- A nested loop over the two lists would take their number squared, and the planner expects few.
create or replace function turnabout.lost(queue_id int, ids bigint[], held bigint[]) returns text[]
language plpgsql
set enable_hashjoin = on
set enable_nestloop = off
as $$
begin
    if cardinality(held) = cardinality(ids) then
        return null;
    end if;
    return array_agg(
        case when h.id is null then turnabout.place_of(lost.queue_id, t.id) end order by t.nr)
    from unnest(ids) with ordinality t (id, nr)
    left join unnest(held) h (id) on h.id = t.id;
end
$$;
