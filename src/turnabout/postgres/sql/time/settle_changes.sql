-- A change of a queue (its settings, a policy, its end) is over when all transactions that may not
-- have seen it have ended. Until then they may still act on the old settings: add leases that no
-- limit counts, or whose history would not be kept, and messages of a queue that is gone. So acks
-- avoid the fast path, limits count leases and not slots (uncounted_leases), and this corrects what
-- they wrote. Receives and maintenance call it after the change's commit.
--
-- Such a transaction locks one of our tables before it reads the settings, and keeps the lock to
-- its end, so only those that hold one after the change's commit matter. (Above `read committed`
-- the snapshot is older: see receive and send.)
--
-- With `waits` it waits a moment, unless it holds something: nearly all of them are gone by then.
create or replace function turnabout.settle_changes(
    queue text, now_ms turnabout.instant default null, waits boolean default true
) returns void language plpgsql as $$  -- plans: pinned
declare
    v_own xid8 := coalesce(pg_current_xact_id_if_assigned(), '0');
    v_changes bigint[]; v_writers text[]; v_queue turnabout.queue; v_clean boolean; v_gone record;
begin
    lock table turnabout.ready in row exclusive mode;
    v_changes := array(
        select c.id from turnabout.recent_change c
        where c.queue = settle_changes.queue and c.xid <> v_own
    );
    -- (After a crash nothing has its place before a rebuild.)
    if cardinality(v_changes) = 0 or not exists (select from turnabout.whole)
        or not pg_try_advisory_xact_lock(hashtextextended('turnabout.settle_changes', 0))
    then
        return;
    end if;

    -- 1. Who was writing when a change was looked at first, and still is. (What is prepared had
    --    another name before; it begins with `-1/`.)
    for i in 0 .. 4 loop
        v_writers := array(
            select distinct l.virtualtransaction from pg_locks l
            where l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
                and l.relation in ('turnabout.ready'::regclass, 'turnabout.tally'::regclass)
                and l.database = (
                    select d.oid from pg_database d where d.datname = current_database()
                )
                and l.pid is distinct from pg_backend_pid()
                and (i = 0 or l.virtualtransaction = any (v_writers)
                    or l.virtualtransaction like '-1/%')
        );
        exit when cardinality(v_writers) = 0 or i = 4 or v_own <> '0' or not settle_changes.waits;
        perform pg_sleep(0.001 * (1 << (2 * i)));
    end loop;
    update turnabout.recent_change c set began = array(
        select w.who from unnest(v_writers) w (who)
        where c.began is null or w.who = any (c.began) or w.who like '-1/%'
    )
    where c.id = any (v_changes);

    -- 2. These statements see all that the others have written.
    select q.* into v_queue from turnabout.queue q where q.name = settle_changes.queue;
    v_clean := not found or turnabout.apply_settings(v_queue);
    for v_gone in
        select c.queue_id, bool_and(c.began = '{}') as is_over from turnabout.recent_change c
        where c.id = any (v_changes) and c.queue_id is distinct from v_queue.id group by c.queue_id
    loop
        perform turnabout.sweep_deleted(
            v_gone.queue_id, v_queue, v_gone.is_over,
            coalesce(settle_changes.now_ms, turnabout.clock_ms()));
    end loop;
    delete from turnabout.recent_change c where c.id = any (v_changes) and c.began = '{}'
        and (v_clean or c.queue_id is distinct from v_queue.id);
end $$;
