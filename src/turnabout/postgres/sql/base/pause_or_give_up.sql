-- Sleep briefly between two tries for a lock, or raise SQLSTATE 55P03 when the time is up.
create or replace function turnabout.pause_or_give_up(ends_at timestamptz) returns void
language plpgsql as $$
begin
    if clock_timestamp() >= ends_at then
        raise exception 'another transaction is busy with the same key'
            using errcode = 'lock_not_available';
    end if;
    perform pg_sleep(0.005);
end $$;
