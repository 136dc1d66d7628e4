-- Lease up to max_messages ready messages, the channels in turn.
--
-- Unlimited channels, the common ones, have no row anywhere. They are found by a skip scan: jump in
-- the index message_ready from one channel to the first entry of the next, a few microseconds each,
-- however many channels and messages there are. Nothing is locked but the messages that are taken,
-- and inside a channel what another receiver holds is stepped over, so many receivers may work one
-- channel. Limited channels stand in the table channel, in the same order by name; they are merged
-- in where one is awake, and taken by receive_limited.
--
-- A visit takes 1 message in batches under 8, 2 under 40, else 4, so that large batches need fewer
-- jumps and receivers that walk the same channels meet less often. When a whole turn gave less than
-- asked for, another goes over the channels that had more.
--
-- Where all events are wanted, the function calls itself (`inner_call`) and notes what came: other
-- queues pay nothing for that.
--
-- `bare` leaves out payloads, headers and states, for a caller that reads them elsewhere. Without
-- `check_due` what has become due is not looked for unless nothing else is there: for callers that
-- did so in the same millisecond.
--
-- One row per message. If there is none, one row with null id: `at` says when it is worth asking
-- again.
-- plans: pinned
create or replace function turnabout.receive(
    queue text,
    max_messages int,
    lease_ms bigint default null,
    turn text default null,
    served int default 0,
    shard int default null,
    shards int default null,
    now_ms bigint default null,
    inner_call boolean default false,
    bare boolean default false,
    check_due boolean default true
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_queue turnabout.queue;  -- read only where more than the next five is needed
    v_queue_id int;
    v_lease_ms bigint;
    v_paused boolean;
    v_rows boolean;          -- some channel has, or had, limits
    v_limits boolean;        -- a limited channel has a say now
    v_due boolean := false;
    v_marks boolean := false;
    v_events boolean;
    v_odd boolean := false;  -- head marks lie in the queue, or something has expired
    v_now bigint := coalesce(receive.now_ms, turnabout.clock_ms());
    v_until bigint;
    -- Without a turn: after the last possible name, and so around to the first.
    v_start text collate "C" := coalesce(receive.turn, repeat(chr(1114111), 64));
    v_left int := receive.max_messages;
    v_quantum int := case when v_left >= 40 then 4 when v_left >= 8 then 2 else 1 end;
    v_visits int;
    v_got int;
    v_met boolean := false;  -- the last look found nothing, or only what others hold
    v_dry boolean := false;  -- there is nothing to find
    v_dead bigint := turnabout.dead_tuples_read();
begin
    -- 1. The queue and wakes of its channels; then what time has brought: due messages, leases that
    --    ran out, what has expired. Each `exists` costs microseconds, found or not.
    select q.id, q.lease_ms, q.paused,
        exists (select from turnabout.channel c where c.queue_id = q.id),
        q.limited or exists (select from turnabout.wake w where w.queue_id = q.id),
        q.events = 'all'
    into v_queue_id, v_lease_ms, v_paused, v_rows, v_limits, v_events
    from turnabout.queue q
    where q.name = receive.queue;
    if v_events and not inner_call then
        return query
        with taken as materialized (
            select * from turnabout.receive(
                receive.queue, receive.max_messages, receive.lease_ms, receive.turn, receive.served,
                receive.shard, receive.shards, v_now, true, receive.bare)
        ),
        noted as (
            insert into turnabout.event (at, message_id, due_at, queue_id, attempt, kind, channel)
            select v_now, t.id, t.at, v_queue_id, t.attempt, 'leased', t.channel
            from taken t
            where t.id is not null
        )
        select * from taken;
        return;
    end if;
    if receive.check_due then
        select
            exists (
                select from turnabout.message m
                where m.queue_id = q.id and m.status > 0 and m.at <= v_now and m.at > q.timers_since
            ),
            exists (
                select from turnabout.message x
                where x.queue_id = q.id and x.expires_at <= v_now and x.status < 2
            )
        into v_due, v_odd
        from turnabout.queue q
        where q.id = v_queue_id;
    end if;
    if receive.max_messages = 1 and (v_odd or not receive.check_due) then
        v_marks := exists (
            select from turnabout.message b where b.queue_id = v_queue_id and b.id < 0
        );
    end if;
    if v_queue_id is null or v_paused or v_due or v_odd then
        v_queue := turnabout.find_queue(receive.queue);
    end if;
    v_until := v_now + coalesce(receive.lease_ms, v_lease_ms);
    if v_odd then
        perform turnabout.expire(v_queue, v_now, 2 * receive.max_messages + 500);
    end if;
    if v_due then
        perform turnabout.run_timers(v_queue, v_now, 2 * receive.max_messages + 100);
    end if;
    if v_due or v_odd then
        v_limits := v_limits
            or exists (select from turnabout.wake w where w.queue_id = v_queue_id);
    end if;
    if v_rows and not v_limits then
        v_limits := exists (
                select from turnabout.channel c
                where c.queue_id = v_queue_id and c.awake_name is not null
            )
            or exists (
                select from turnabout.channel c
                where c.queue_id = v_queue_id and c.wake_at <= v_now
            );
    end if;
    if v_limits then
        perform turnabout.wake_channels(v_queue_id, v_now);
    end if;
    if v_paused then
        return query select * from turnabout.nothing_ready(v_queue, v_now);
        return;
    end if;

    -- 2. A single message without limits: the first of the next channel that nobody holds; at the
    --    end of the names, of the first. (No name lies between a name and that name with the least
    --    character after it.) One small statement starts much quicker than that of step 3, which
    --    knows head marks, and steps over what was sent before its channel became limited.
    if receive.max_messages = 1 and not v_limits and receive.shards is null and not v_marks then
        return query
        update turnabout.message m
        set status = 2, attempt = m.attempt + 1, at = v_until, leased_at = v_now
        where m.id = (
            select head.id
            from (values (v_start || chr(1)), ('')) lap (place)
            cross join lateral (
                select r.id
                from turnabout.message r
                where r.queue_id = v_queue_id and r.status = 0 and not r.limited
                    and r.channel >= lap.place collate "C"
                    and (r.expires_at is null or r.expires_at > v_now)
                order by r.channel, r.priority, r.id
                limit 1
                for update skip locked
            ) head
            limit 1
        )
            and (not v_rows or (
                select 1 from turnabout.channel c
                where c.queue_id = v_queue_id and c.name = m.channel
            ) is null)
        returning m.id, m.attempt, m.channel::text, m.priority,
            case when not receive.bare then m.payload end, m.content_type,
            case when not receive.bare then m.headers end,
            case when not receive.bare then m.state end,
            m.failures, m.crashes, m.sent_at, m.origin, m.at, v_until - v_now;
        get diagnostics v_got = row_count;
        v_left := 1 - v_got;
        if v_left = 0 and turnabout.dead_tuples_read() > v_dead + 16 then
            perform turnabout.set_head_marks(v_queue_id, v_start, 1);
        end if;
    end if;

    -- 3. Where no limited channel has a say, one statement does it all. The skip scan finds the
    --    next channels: each step is one index probe for the first entry after a channel; at the
    --    end of the names it goes on at their start, and a name beyond `turn` ends it (tested
    --    outside the probe, where it cannot become a filter that walks every entry). Heads are
    --    locked from where the probe landed on, and leased. A landing on a mark (an id below zero,
    --    see set_head_marks) goes on at its mark. The scan runs only as far as its channels are
    --    asked for; whether the whole turn is shorter than a batch, so that each channel has to
    --    give more than the quantum, is seen from its first `v_visits`.
    v_visits := (v_left + v_quantum - 1) / v_quantum;
    while v_left > 0 and not v_limits and receive.shards is null loop
        return query
        with recursive hop (channel, priority, since, lap, nr) as (
            select v_start, 0::smallint, 0::bigint, 0, 0
            union all
            select next.channel, next.priority, next.since, next.lap, hop.nr + 1
            from hop
            cross join lateral (
                (select m.channel, m.priority, case when m.id < 0 then m.at else m.id end as since,
                    hop.lap
                from turnabout.message m
                where m.queue_id = v_queue_id and m.status = 0 and not m.limited
                    and m.channel > hop.channel
                order by m.channel, m.priority, m.id limit 1)
                union all
                (select m.channel, m.priority, case when m.id < 0 then m.at else m.id end, 1
                from turnabout.message m
                where hop.lap = 0 and m.queue_id = v_queue_id and m.status = 0 and not m.limited
                order by m.channel, m.priority, m.id limit 1)
                limit 1
            ) next
            where hop.nr < v_left and (next.lap = 0 or next.channel <= v_start)
        )
        update turnabout.message m
        set status = 2, attempt = m.attempt + 1, at = v_until, leased_at = v_now
        where m.id = any (array(
            select head.id
            from hop
            cross join lateral (
                select r.id from turnabout.message r
                where r.queue_id = v_queue_id and r.channel = hop.channel
                    and r.status = 0 and not r.limited
                    and (r.priority, r.id) >= (hop.priority, hop.since) and r.id + 0 > 0
                    and (r.expires_at is null or r.expires_at > v_now)
                order by r.priority, r.id
                limit (
                    select case when s.seen < v_visits then (v_left + s.seen - 1) / s.seen
                        else v_quantum end
                    from (
                        select greatest(count(*), 1) as seen
                        from (select from hop h where h.nr > 0 limit v_visits) h
                    ) s
                )
                for update skip locked
            ) head
            where hop.nr > 0
                -- Not what was sent before its channel became limited. A scalar subquery: it is
                -- never turned into a hash of all rows.
                and (not v_rows or (
                    select 1 from turnabout.channel c
                    where c.queue_id = v_queue_id and c.name = hop.channel
                ) is null)
            limit v_left
        ))
        returning m.id, m.attempt, m.channel::text, m.priority,
            case when not receive.bare then m.payload end, m.content_type,
            case when not receive.bare then m.headers end,
            case when not receive.bare then m.state end,
            m.failures, m.crashes, m.sent_at, m.origin, m.at, v_until - v_now;
        get diagnostics v_got = row_count;
        v_left := v_left - v_got;
        if turnabout.dead_tuples_read() > v_dead + 16 * v_visits then
            perform turnabout.set_head_marks(v_queue_id, v_start, v_visits);
            v_dead := turnabout.dead_tuples_read();
        end if;
        -- Less than asked for: the queue is dry, few channels are left, or others work here. Go on
        -- elsewhere, so that receivers that have met part again.
        exit when v_left = 0 or v_met and v_got = 0;
        v_met := v_got = 0;
        v_dry := v_met and not exists (
            select from turnabout.message m
            where m.queue_id = v_queue_id and m.status = 0 and not m.limited
        );
        exit when v_dry;
        v_start := coalesce(turnabout.random_channel(v_queue_id), v_start);
        v_visits := (v_left + v_quantum - 1) / v_quantum;
    end loop;

    -- 4. With limits that have a say now, or if others held all that was found: turn by turn.
    if v_left = receive.max_messages and not v_dry or v_limits or receive.shards is not null
        or v_left > 0 and v_rows
    then
        v_queue := turnabout.find_queue(receive.queue);
        return query select * from turnabout.receive_turns(
            v_queue, v_left, v_quantum, v_start, receive.served, v_limits or v_rows,
            receive.shard, receive.shards, v_now, v_until, receive.bare);
        get diagnostics v_got = row_count;
        v_left := v_left - v_got;
    end if;
    if v_left = receive.max_messages and not receive.check_due then
        return query select * from turnabout.receive(
            receive.queue, receive.max_messages, receive.lease_ms, receive.turn, receive.served,
            receive.shard, receive.shards, v_now, receive.inner_call, receive.bare);
    elsif v_left = receive.max_messages then
        v_queue := turnabout.find_queue(receive.queue);
        return query select * from turnabout.nothing_ready(v_queue, v_now);
    end if;
end
$$;
