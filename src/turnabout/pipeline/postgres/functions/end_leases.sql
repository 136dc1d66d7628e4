-- End leased messages as done, as ack does, however many there are; answers with how many.
--
-- Where all have the same attempt, as nearly always, it locks as it goes and waits a little for
-- rows that others hold. Whoever holds them cannot wait for us: what we have locked is a
-- subscription, and messages that are leased for it.
create or replace function turnabout_pipeline.end_leases(
    queue_id int, ids bigint[], attempts int[], now_ms bigint
) returns int
language plpgsql
set lock_timeout = '50ms'
as $$
declare
    v_queue turnabout.queue;
    v_count int;
    v_channels text[];
begin
    select q.* into v_queue from turnabout.queue q where q.id = end_leases.queue_id;
    if not found then
        return 0;
    end if;
    if attempts[1] = all (attempts) then
        begin
            select e.ended, e.channels into v_count, v_channels
            from turnabout.end_done(v_queue, ids, attempts[1], now_ms) e;
        exception when lock_not_available then
            v_count := null;
        end;
    end if;
    if v_count is null then
        select e.ended, e.channels into v_count, v_channels
        from turnabout.end_done(
            v_queue, turnabout.lock_leases(v_queue.id, ids, attempts), null, now_ms) e;
    end if;
    if v_channels is not null then
        insert into turnabout.wake (queue_id, channel)
        select distinct v_queue.id, c.name from unnest(v_channels) c (name);
    end if;
    if v_count > 0 then
        insert into turnabout.tally (queue_id, done) values (v_queue.id, v_count);
    end if;
    return v_count;
end
$$;
