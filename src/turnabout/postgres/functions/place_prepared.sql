-- A rebuild leaves out what prepared transactions have in hand, and can't see what they will add.
-- It has noted them; once one has ended, give a place to what it left.
create or replace function turnabout.place_prepared(now_ms bigint) returns void
language plpgsql as $$
declare
    v_note turnabout.recent_change;
    v_left text[];
begin
    for v_note in
        select c.* from turnabout.recent_change c where c.queue = '' for update skip locked
    loop
        v_left := array(
            select p.transaction::text from pg_prepared_xacts p
            where p.transaction::text = any (v_note.began)
        );
        continue when cardinality(v_left) = cardinality(v_note.began);
        perform turnabout.rescue_orphans(now_ms, 0, 2147483647);
        update turnabout.recent_change c set began = v_left where c.id = v_note.id;
        delete from turnabout.recent_change c where c.id = v_note.id and v_left = '{}';
    end loop;
end
$$;
