-- A crash of the server has emptied the unlogged tables (so has a failover to a replica, or a restore
-- of a backup): every message gets a place again. Leases of before are void: their receipts name a
-- lease that is no more, and numbers of leases go on far above those that were given out. What
-- slices have recorded of leases in tables that last, their `restore_leases` brings back.
--
-- Senders are not kept waiting: a send puts in a message with its place, so a snapshot has both or
-- neither. Nobody receives until it is done. It needs to see what others have committed, in a
-- transaction of its own.
create or replace function turnabout.rebuild() returns void
language plpgsql
set enable_nestloop = off
set enable_hashjoin = on
set enable_seqscan = on
set plan_cache_mode = force_custom_plan
set jit = off
as $$
declare
    v_now bigint := turnabout.clock_ms();
    v_place text;
begin
    if current_setting('transaction_isolation') <> 'read committed'
        or pg_current_xact_id_if_assigned() is not null
    then
        raise exception 'after a crash of the server, another transaction has to rebuild first'
            using errcode = 'lock_not_available', hint = 'repeat it';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('turnabout.rebuild', 0));
    if exists (select from turnabout.whole) then
        return;
    end if;
    perform set_config('synchronous_commit', 'on', true);
    perform setval(
        'turnabout.lease_number',
        coalesce(pg_sequence_last_value('turnabout.lease_number'::regclass), 1) + 1000000);
    for v_place in
        select distinct on (r.slice) r.place from turnabout.revision r
        where r.slice <> ''
            and to_regprocedure(format('%I.restore_leases(bigint)', r.place)) is not null
        order by r.slice, r.number desc
    loop
        execute format('select %I.restore_leases($1)', v_place) using v_now;
    end loop;

    -- Leases whose cancelling was asked for have ended: so do these messages.
    perform turnabout.end_messages(q, w.ids, 3, v_now)
    from (
        select m.queue_id, array_agg(m.id) as ids from turnabout.message m
        where m.cancel_requested and not exists (
            select from turnabout.lease l
            cross join unnest(l.ids, l.attempts) t (id, attempt)
            where t.id = m.id and t.attempt = m.attempt + 1
        )
        group by m.queue_id
    ) w
    join turnabout.queue q on q.id = w.queue_id;
    with placed as materialized (
        select m.id, m.at, m.expires_at, m.queue_id, m.priority, m.channel,
            q.limited or c.name is not null as limited, m.at > v_now and not q.fifo as is_later
        from turnabout.message m
        join turnabout.queue q on q.id = m.queue_id
        left join turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel
        where not exists (select from turnabout.ready r where r.id = m.id)
            and not exists (select from turnabout.scheduled s where s.id = m.id)
            and not exists (
                select from turnabout.lease l
                cross join unnest(l.ids, l.attempts) t (id, attempt)
                where t.id = m.id and t.attempt = m.attempt + 1
            )
        order by m.queue_id, limited, m.channel, m.priority, m.id
    ),
    scheduled as (
        insert into turnabout.scheduled (
            id, at, expires_at, queue_id, priority, limited, channel
        )
        select p.id, p.at, p.expires_at, p.queue_id, p.priority, p.limited, p.channel
        from placed p
        where p.is_later
    ),
    ready as (
        insert into turnabout.ready (id, at, expires_at, queue_id, priority, limited, channel)
        select p.id, case when p.at > v_now then p.at end, p.expires_at, p.queue_id, p.priority,
            p.limited, p.channel
        from placed p
        where p.is_later is not true
    )
    insert into turnabout.wake (queue_id, channel)
    select distinct p.queue_id, p.channel from placed p where p.limited;
    -- Channels that slept until a lease ends, of which there is none any more.
    insert into turnabout.wake (queue_id, channel)
    select c.queue_id, c.name from turnabout.channel c where not c.awake;
    insert into turnabout.whole (since) values (v_now);
end
$$;
