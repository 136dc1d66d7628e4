-- Refuse (SQLSTATE PQ503) while a crash of the server has left it open where messages stand. The
-- library then calls turnabout.rebuild(), in a transaction of its own, and repeats the call.
--
-- Nothing rebuilds on its way: others would wait for a caller's transaction, leases begin early.
create or replace function turnabout.require_places() returns void
language plpgsql as $$
begin
    if not exists (select from turnabout.whole) then
        raise exception 'the server has crashed, and its queues are not rebuilt yet'
            using errcode = 'PQ503',
            hint = 'roll back, call turnabout.rebuild() outside of a transaction, repeat';
    end if;
end
$$;
