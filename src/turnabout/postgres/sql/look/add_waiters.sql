-- A process says that it waits in these queues, for `valid_ms` (a minute at most) unless it says so
-- again. Afterwards it looks once more: what was sent before others could see its rows is there by
-- then. `sweep`: remove what killed processes left behind there, a minute after it was valid.
--
-- A row is a hint. So where there are too many, as of somebody who makes names up, none is added,
-- and those who wait look once a second.
create or replace function turnabout.add_waiters(
    process text, queues text[], changes smallint[], valid_ms int, sweep boolean default false
) returns void language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := turnabout.clock_ms();
    v_until bigint := v_now + least(add_waiters.valid_ms, 60000);
    v_me oid := session_user::regrole;
    v_left text[];
begin
    perform turnabout.check_queue_count(add_waiters.queues);
    if pg_relation_size('turnabout.waiter') > 8000000 then
        if pg_stat_get_live_tuples('turnabout.waiter'::regclass) > 100000 then
            delete from turnabout.waiter w where w.ctid = any (array(
                select o.ctid from turnabout.waiter o where o.until < v_now for update skip locked
            ));
            return;
        end if;
    end if;

    -- A process says this by one call at a time, so its rows are not there twice.
    with renewed as (
        update turnabout.waiter w set until = v_until
        from unnest(add_waiters.queues, add_waiters.changes) n (queue, change)
        where w.queue = n.queue collate "C" and w.until > v_now and w.changes = n.change
            and w.process = add_waiters.process and w.role = v_me
        returning w.queue, w.changes
    )
    insert into turnabout.waiter (process, queue, changes, until, role)
    select add_waiters.process, n.queue, n.change, v_until, v_me
    from unnest(add_waiters.queues, add_waiters.changes) n (queue, change)
    where not exists (
        select from renewed r where r.queue = n.queue collate "C" and r.changes = n.change
    );
    if add_waiters.sweep then
        v_left := array(
            select w.process from turnabout.waiter w
            where w.queue = any (add_waiters.queues collate "C") and w.until < v_now - 60000
            for update skip locked
        );
        delete from turnabout.waiter w
        where w.process = any (v_left) and w.queue = any (add_waiters.queues collate "C")
            and w.until < v_now - 60000;
    end if;
end $$;
