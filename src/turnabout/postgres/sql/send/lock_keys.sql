-- Take the advisory locks of dedup keys, in the order of their hashes; null: of all that the queue
-- has. They end with the transaction.
--
-- A transaction that has written nothing yet, and so holds nothing that others wait for, waits up
-- to 5 seconds. Any other tries for 50 ms and then fails with SQLSTATE 55P03 (lock_not_available).
--
-- The server's lock table is bounded, so a large send takes its queue as a whole. It does not
-- stand in line for that: others would have to wait behind it. (For all keys it does: the queue is
-- about to go.)
create or replace function turnabout.lock_keys(queue text, keys text[]) returns void
language plpgsql set lock_timeout = '5s' as $$
declare
    v_all bigint := hashtextextended('turnabout.dedup ' || queue, 0);
    v_is_first boolean := pg_current_xact_id_if_assigned() is null;
    v_ends_at timestamptz := clock_timestamp()
        + case when v_is_first then interval '5 s' else interval '50 ms' end;
    v_lock bigint;
begin
    if keys is null and v_is_first then
        perform pg_advisory_xact_lock(v_all);
    elsif keys is null or cardinality(keys) > 500 then
        while not pg_try_advisory_xact_lock(v_all) loop
            perform turnabout.pause_or_give_up(v_ends_at);
        end loop;
    else
        while not pg_try_advisory_xact_lock_shared(v_all) loop
            perform turnabout.pause_or_give_up(v_ends_at);
        end loop;
        for v_lock in
            select distinct hashtextextended(k.key, v_all) as lock from unnest(keys) k (key)
            order by lock
        loop
            if v_is_first then
                perform pg_advisory_xact_lock(v_lock);
            else
                while not pg_try_advisory_xact_lock(v_lock) loop
                    perform turnabout.pause_or_give_up(v_ends_at);
                end loop;
            end if;
        end loop;
    end if;
    -- From now on this transaction does hold something: let its next call see that.
    perform pg_current_xact_id();
end $$;
