-- Values of a list of ids where the id is among `held`, null elsewhere.
--
-- A nested loop over the lists would take their number squared, and the planner expects few.
create or replace function turnabout.null_unless_held(amounts bigint[], ids bigint[], held bigint[])
returns bigint[] language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
begin
    if cardinality(held) = cardinality(ids) then return amounts; end if;
    return array(
        select case when h.id is not null then t.amount end
        from unnest(ids, amounts) with ordinality t (id, amount, nr)
        left join unnest(held) h (id) on h.id = t.id order by t.nr
    );
end $$;
