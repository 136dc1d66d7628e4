-- Note that rows of the log were removed up to a position; null: none were. Lower notes that are
-- not locked are removed.
create or replace function turnabout.note_floor(xid xid8, id bigint) returns void
language plpgsql as $$
begin
    if note_floor.xid is null or exists (
        select from turnabout.history_floor f where (f.xid, f.id) >= (note_floor.xid, note_floor.id)
    ) then
        return;
    end if;
    insert into turnabout.history_floor (xid, id) values (note_floor.xid, note_floor.id);
    delete from turnabout.history_floor f where f.ctid = any (array(
        select o.ctid from turnabout.history_floor o
        where (o.xid, o.id) < (note_floor.xid, note_floor.id) order by o.xid, o.id limit 100
        for update skip locked
    ));
end $$;
