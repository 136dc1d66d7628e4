-- Notify processes that wait in these queues. Called after the commit of what changed, in a
-- transaction of its own: a process that says that it waits is either seen here, or sees the
-- change.
--
-- One element of the arrays is one queue: `changes` says what there may be (1 messages for
-- receivers, 2 ends of messages, 3 both), and `counts` how many. That many receivers are notified,
-- and their rows are gone; those for whom ends matter, all. An end may free a slot: where channels
-- have limits it is for a receiver, too.
--
-- `own`: the caller's own process, where it has receivers that it has notified itself. They count,
-- and their row stays; an end that is for them is answered with the queue.
create or replace function turnabout.notify_waiters(
    queues turnabout.known_queue[], changes smallint[], counts int[], own text[]
) returns setof text language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := turnabout.clock_ms();
    v_found record; v_wanted record; v_taken text[];
begin
    perform turnabout.check_queue_count(notify_waiters.queues::text[]);
    for v_wanted in
        select c.queue, c.change, c.count, c.own from unnest(
            notify_waiters.queues, notify_waiters.changes, notify_waiters.counts, notify_waiters.own
        ) c (queue, change, count, own)
    loop
    -- 1. Who waits there: for most calls nobody, and that is all.
        select bool_or(w.changes = 1) as receivers, bool_or(w.changes > 1) as others
        into v_found
        from turnabout.waiter w where w.queue = v_wanted.queue collate "C" and w.until > v_now;

        -- 2. Receivers. The lock first; a row that another call is taking is its own.
        if v_found.receivers and (v_wanted.change & 1 > 0 or exists (
            select from turnabout.queue q
            where q.name = v_wanted.queue collate "C" and (q.limited or q.queue_limited
                or exists (select from turnabout.channel c where c.queue_id = q.id))
        )) then
            v_taken := array(
                select w.process from turnabout.waiter w
                where w.queue = v_wanted.queue collate "C" and w.until > v_now and w.changes = 1
                order by w.process is distinct from v_wanted.own, w.until desc limit v_wanted.count
                for update skip locked
            );
            if v_wanted.own = any (v_taken) then
                v_taken := array_remove(v_taken, v_wanted.own);
                if v_wanted.change & 1 = 0 then return next v_wanted.queue; end if;
            end if;
            delete from turnabout.waiter w
            where w.process = any (v_taken) and w.queue = v_wanted.queue collate "C"
                and w.until > v_now and w.changes = 1;
            perform pg_notify('turnabout_' || t.process, '1 ' || v_wanted.queue)
            from unnest(v_taken) t (process);
        end if;

        -- 3. Those who wait for ends, or for all that happens.
        if v_found.others then
            v_taken := array(
                select w.process from turnabout.waiter w
                where w.queue = v_wanted.queue collate "C" and w.until > v_now and w.changes > 1
                    and w.changes & v_wanted.change > 0
                for update skip locked
            );
            delete from turnabout.waiter w
            where w.process = any (v_taken) and w.queue = v_wanted.queue collate "C"
                and w.until > v_now and w.changes > 1 and w.changes & v_wanted.change > 0;
            perform pg_notify('turnabout_' || t.process, v_wanted.change || ' ' || v_wanted.queue)
            from unnest(v_taken) t (process);
        end if;
    end loop;
end $$;
