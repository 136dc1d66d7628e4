-- A crash of the server has emptied the unlogged tables (so has a failover to a replica, or a
-- restore of a backup): every message gets a place again. Leases of before are void: their receipts
-- name a lease that is no more. What slices have recorded of leases in tables that last, their
-- `restore_leases` brings back.
--
-- Senders are not kept waiting: a send puts in a message with its place, so a snapshot has both or
-- neither. Nobody receives until it is done. So it runs in a transaction of its own, and is refused
-- in one that has written. A caller that meets another rebuild waits for a second, then gets
-- SQLSTATE 55P03 and may ask again: no session outlives its client by more than that.
create or replace function turnabout.rebuild() returns void
language plpgsql set enable_nestloop = off set enable_mergejoin = off set enable_hashjoin = on
set enable_seqscan = on set plan_cache_mode = force_custom_plan set jit = off
set lock_timeout = '1s' as $$
declare
    v_now bigint := turnabout.clock_ms();
    v_place text; v_some bigint[];
    v_kept bigint[] := '{}';  -- leases
    v_prepared xid[] := array(
        select p.transaction from pg_prepared_xacts p where p.database = current_database()
    );
begin
    if exists (select from turnabout.whole) then return; end if;
    if pg_current_xact_id_if_assigned() is not null then perform turnabout.require_places(); end if;
    perform pg_advisory_xact_lock(hashtextextended('turnabout.rebuild', 0));
    if exists (select from turnabout.whole) then return; end if;
    -- There is one row at most. A transaction above `read committed` can't see the one that another
    -- rebuild has put in meanwhile, and fails here.
    begin
        delete from turnabout.built;
        insert into turnabout.built (since) values (v_now);
        update turnabout.built b set xid = b.xmin, relation = b.tableoid;
    exception when unique_violation then
        raise exception 'the server has crashed, and its queues were rebuilt just now'
            using errcode = 'lock_not_available', hint = 'repeat it';
    end;

    -- 1. Leases. Their numbers go on at the clock's microseconds, which are above all that anybody
    --    can have given out since the backup was made, or the replica fell behind. A dump may have
    --    brought leases with it: what is not recorded goes back, uncharged.
    perform setval('turnabout.lease_number', greatest(
        v_now * 1000, pg_sequence_last_value('turnabout.lease_number'::regclass) + 1));
    for v_place in
        select distinct on (r.slice) r.place from turnabout.revision r
        where r.slice <> ''
            and to_regprocedure(format('%I.restore_leases(bigint)', r.place)) is not null
        order by r.slice, r.number desc
    loop
        execute format('select %I.restore_leases($1)', v_place) into v_some using v_now;
        v_kept := v_kept || v_some;
    end loop;
    update turnabout.message m set attempt = m.attempt + 1, leased_at = o.leased_at
    from (
        select h.id, l.leased_at from turnabout.lease l
        cross join unnest(l.ids, l.attempts) t (id, attempt)
        join turnabout.message h on h.id = t.id and h.attempt = t.attempt - 1
        where l.id <> all (v_kept) for update of h skip locked
    ) o
    where m.id = o.id;
    delete from turnabout.slot s where not exists (
        select from turnabout.message m where m.id = s.id and m.attempt = s.attempt - 1
    );

    -- The buckets of queues with limits of their own begin empty, and their slots are counted.
    delete from turnabout.queue_limit;
    delete from turnabout.slot_change;
    insert into turnabout.queue_limit (queue_id, rate_tat_us, rate_depth_us)
    select q.id, v_now * 1000 + d.depth, d.depth from turnabout.queue q
    cross join lateral (
        select coalesce(q.queue_rate_burst * q.queue_rate_interval_us, 0) as depth
    ) d
    where q.queue_limited;
    insert into turnabout.slot_change (queue_id) select l.queue_id from turnabout.queue_limit l;

    -- 2. Leases whose cancelling was asked for have ended: so do these messages.
    perform turnabout.end_messages(q, w.ids, 3, v_now)
    from (
        select c.queue_id, array_agg(c.id) as ids from (
            select m.id, m.queue_id from turnabout.message m
            where m.cancel_requested and not exists (
                select from turnabout.lease l
                cross join unnest(l.ids, l.attempts) t (id, attempt)
                where t.id = m.id and t.attempt = m.attempt + 1
            )
            for update skip locked
        ) c
        group by c.queue_id
    ) w
    join turnabout.queue q on q.id = w.queue_id;

    -- 3. Places for what has none, but for what a prepared transaction changes: place_prepared
    -- gives it one when that ends. Inserted about in the order of the line's index, which takes
    -- half the time; to sort by all of its columns would take what that saves.
    with homeless as not materialized (
        select m.id, m.at, greatest(m.sent_at, m.leased_at) as since, m.expires_at, m.queue_id,
            m.priority, m.channel, coalesce(q.fifo, false) as fifo,
            coalesce(q.limited, false) or c.name is not null as limited
        from turnabout.message m
        left join turnabout.queue q on q.id = m.queue_id  -- else it is to be swept
        left join turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel
        where m.xmax <> all (v_prepared)
            and not exists (select from turnabout.ready r where r.id = m.id)
            and not exists (select from turnabout.scheduled s where s.id = m.id)
            and not exists (
                select from turnabout.lease l
                cross join unnest(l.ids, l.attempts) t (id, attempt)
                where t.id = m.id and t.attempt = m.attempt + 1
            )
    ),
    later as (
        insert into turnabout.scheduled (
            id, at, since, expires_at, queue_id, priority, limited, channel
        )
        select h.id, h.at, h.since, h.expires_at, h.queue_id, h.priority, h.limited, h.channel
        from homeless h where h.at > v_now and not h.fifo
    )
    insert into turnabout.ready (id, at, expires_at, queue_id, priority, limited, channel)
    select h.id, case when h.at > v_now then h.at end, h.expires_at, h.queue_id, h.priority,
        h.limited, h.channel
    from homeless h where (h.at > v_now and not h.fifo) is not true order by h.channel, h.id;

    insert into turnabout.recent_change (queue_id, queue, began)
    select 0, '', v_prepared::text[] where cardinality(v_prepared) > 0;

    -- 4. Limited channels look again, also those that slept until a lease ends.
    insert into turnabout.wake (queue_id, channel)
    select r.queue_id, r.channel from turnabout.ready r where r.limited and r.id > 0
    union
    select c.queue_id, c.name from turnabout.channel c where not c.awake;
end $$;
