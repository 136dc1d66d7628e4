-- For each receipt that is not held, where its message is now (null: it is held); null: all are.
create or replace function turnabout.places_of_lost(queue_id int, ids bigint[], held bigint[])
returns text[] language plpgsql as $$
begin
    if cardinality(held) = cardinality(ids) then return null; end if;
    return array(
        select case when t.held is null then turnabout.place_of(places_of_lost.queue_id, t.id) end
        from unnest(ids, turnabout.null_unless_held(ids, ids, held))
            with ordinality t (id, held, nr)
        order by t.nr
    );
end $$;
