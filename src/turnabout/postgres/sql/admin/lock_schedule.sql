-- A call that changes or fires a schedule holds this lock until its transaction ends, so nobody
-- ever waits for the row. Tries for a short while, then SQLSTATE 55P03.
create or replace function turnabout.lock_schedule(name text) returns void language plpgsql as $$
declare
    v_lock bigint := hashtextextended('turnabout.schedule ' || name, 0);
    v_ends_at timestamptz := clock_timestamp() + interval '200 ms';
begin
    while not pg_try_advisory_xact_lock(v_lock) loop
        perform turnabout.pause_or_give_up(v_ends_at);
    end loop;
end $$;
