-- End messages of a lease as done, as ack does, however many there are; answers with how many. All
-- of them: the lease goes, too.
--
-- Where all have the same attempt, as nearly always, it locks as it goes and waits a little for
-- rows that others hold. Their holders cannot wait for us: what we have locked is a
-- subscription, and messages that are leased for it.
create or replace function turnabout_pipeline.end_leases(
    queue_id int, ids bigint[], attempts int[], lease bigint, leased_at bigint, now_ms bigint
) returns int language plpgsql set lock_timeout = '50ms' as $$
declare
    v_queue turnabout.queue; v_count int;
begin
    select q.* into v_queue from turnabout.queue q where q.id = end_leases.queue_id;
    if not found then return 0; end if;
    if attempts[1] = all (attempts) then
        begin
            v_count := turnabout.end_done(v_queue, ids, attempts[1], now_ms, ids, array[leased_at]);
        exception when lock_not_available then
            v_count := null;
        end;
    end if;
    if v_count is null then
        v_count := turnabout.end_done(
            v_queue,
            turnabout.lock_leases(
                v_queue.id, ids, attempts, array_fill(lease, array[cardinality(ids)])),
            null, now_ms, ids, array[leased_at]);
    end if;
    if v_count > 0 then
        perform turnabout.drop_leases(array[lease], v_count);
        insert into turnabout.tally (queue_id, done) values (v_queue.id, v_count);
    end if;
    return v_count;
end $$;
