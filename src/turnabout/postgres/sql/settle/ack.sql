-- End messages as done. Answers null if all are done; else for each receipt what its message is
-- now, null for those that are done. `results` and `result_types`, one for each receipt, stay in
-- the history. `attempts` and `leases`: one for each receipt, or one for all.
--
-- With `wait_for_locks` it is quick and all or nothing: it waits briefly for rows that others hold;
-- if then not every receipt is a current lease, it fails with SQLSTATE 55P03 (lock_not_available),
-- to be repeated without. Only in a transaction of its own; in any other the option is ignored.
create or replace function turnabout.ack(
    queue text, ids bigint[], attempts int[], now_ms turnabout.instant default null,
    wait_for_locks boolean default false, results turnabout.kept[] default null,
    result_types turnabout.content_type[] default null, leases bigint[] default null
) returns text[] language plpgsql set lock_timeout = '50ms' as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(ack.queue, false);
    v_attempt int; v_leased_at bigint;
    v_ids bigint[] := ack.ids;
    v_leases bigint[] := ack.leases;
    v_count int;
    v_now bigint := coalesce(ack.now_ms, turnabout.clock_ms());
begin
    -- 1. The lease, where it is one of all. A transaction that has written nothing yet holds no
    --    row, so nobody waits for it and it may wait, a little.
    wait_for_locks := wait_for_locks and cardinality(ack.leases) = 1
        and ack.attempts[1] = all (ack.attempts) and pg_current_xact_id_if_assigned() is null;
    if wait_for_locks then
        -- As nearly always, all of the lease ends: it goes. (It stays if anything is not held.)
        delete from turnabout.lease l where l.id = ack.leases[1] and l.queue_id + 0 = v_queue.id
            and cardinality(l.ids) = cardinality(ack.ids)
            and turnabout.lease_holds(l.ids, l.attempts, ack.ids, ack.attempts[1])
        returning l.leased_at into v_leased_at;
        if not found then
            select l.leased_at into v_leased_at from turnabout.lease l
            where l.id = ack.leases[1] and l.queue_id + 0 = v_queue.id
                and turnabout.lease_holds(l.ids, l.attempts, ack.ids, ack.attempts[1]);
        end if;
    end if;
    if v_leased_at is not null then
        v_attempt := ack.attempts[1];
    else
        v_leases := turnabout.leases_of(v_queue.id, ack.ids, ack.attempts, ack.leases);
        v_ids := turnabout.lock_leases(v_queue.id, ack.ids, ack.attempts, v_leases);
    end if;

    -- 2. End them.
    v_count := turnabout.end_done(
        v_queue, v_ids, v_attempt, v_now, ack.ids,
        case when v_leased_at is not null then array[v_leased_at]
            else turnabout.leased_times(v_leases) end,
        ack.results, ack.result_types);
    if v_count = cardinality(ack.ids) and v_leased_at is null then
        perform turnabout.drop_leases(v_leases, v_count);
    end if;
    if v_count > 0 then
        insert into turnabout.tally (queue_id, done) values (v_queue.id, v_count);
    end if;
    if v_count = cardinality(ack.ids) then
        return null;
    elsif v_leased_at is not null then
        perform turnabout.not_all_held();
    end if;
    return turnabout.places_of_lost(v_queue.id, ack.ids, v_ids);
end $$;
