-- Held to the end of a transaction that names a dead-letter queue: two calls that name each other's
-- queue at once would make a ring that neither of them sees. As with lock_keys, a transaction
-- that has written nothing yet waits up to 5 seconds, any other tries for 50 ms (SQLSTATE 55P03).
create or replace function turnabout.lock_dead_letter_queues() returns void
language plpgsql set lock_timeout = '5s' as $$
declare
    v_lock bigint := hashtextextended('turnabout.dead_letter_queues', 0);
    v_ends_at timestamptz := clock_timestamp() + interval '50 ms';
begin
    if pg_current_xact_id_if_assigned() is null then
        perform pg_advisory_xact_lock(v_lock);
    else
        while not pg_try_advisory_xact_lock(v_lock) loop
            perform turnabout.pause_or_give_up(v_ends_at);
        end loop;
    end if;
end $$;
