-- Refuse (SQLSTATE PQ503) while the places of messages are not rebuilt after a crash of the server.
-- The library then calls turnabout.rebuild(), in a transaction of its own, and repeats the call. No
-- function rebuilds by itself: inside a caller's transaction everybody would wait for its end.
create or replace function turnabout.require_places() returns void language plpgsql as $$
begin
    if not exists (select from turnabout.whole) then
        raise exception 'the server has crashed, and its queues are not rebuilt yet'
            using errcode = 'PQ503',
            hint = 'roll back, call turnabout.rebuild() outside of a transaction, repeat';
    end if;
end $$;
