-- Lease up to max_messages ready messages, the channels in turn.
--
-- Unlimited channels, the common ones, have no row anywhere. They are found by a skip scan: jump in
-- the index message_ready from one channel to the first entry of the next, a few microseconds each,
-- however many channels and messages there are. Nothing is locked but the messages that are taken,
-- and inside a channel what another receiver holds is stepped over, so many receivers may work one
-- channel. Limited channels stand in the table channel, in the same order by name; they are merged
-- in where one is awake, and taken by receive_limited.
--
-- A visit takes `quantum` messages, so that large batches need fewer jumps and receivers that walk
-- the same channels meet less often. When a whole turn gave less than asked for, another goes over
-- the channels that had more.
--
-- One row per message. If there is none, one row with null id: `at` says when it is worth asking again.
create or replace function penstock.receive(
    queue text,
    max_messages int,
    lease_ms bigint default null,
    turn text default null,
    served int default 0,
    shard int default null,
    shards int default null,
    now_ms bigint default null
) returns setof penstock.delivery
language plpgsql as $$
#variable_conflict use_column
declare
    v_queue penstock.queue := penstock.find_queue(receive.queue);
    v_now bigint := coalesce(receive.now_ms, penstock.clock_ms());
    v_until bigint := v_now + coalesce(receive.lease_ms, v_queue.lease_ms);
    v_start text collate "C" := coalesce(receive.turn, '');
    v_left int := receive.max_messages;
    v_due boolean;
    v_news boolean;
    v_limits boolean;
    v_place text := v_start;  -- the last channel visited
    v_lap int := 0;           -- 0: up to the end of the names, 1: from their start, null: turn over
    v_visits int;
    v_share int;
    v_open text[];            -- unlimited channels to take from
    v_limited text[];         -- limited ones, their rows locked
    v_got int;
    v_any boolean := false;   -- something was taken in this turn
begin
    -- 1. What time has brought: due messages, leases that ran out, news for limited channels.
    select
        exists (
            select from penstock.message m
            where m.queue_id = v_queue.id and m.status > 0 and m.at <= v_now
        ),
        exists (select from penstock.wake w where w.queue_id = v_queue.id)
        or exists (
            select from penstock.channel c where c.queue_id = v_queue.id and c.wake_at <= v_now
        ),
        v_queue.limited or exists (select from penstock.channel c where c.queue_id = v_queue.id)
    into v_due, v_news, v_limits;
    if v_due then
        perform penstock.run_timers(v_queue, v_now, 2 * receive.max_messages + 100);
    end if;
    if v_news or v_due and v_limits then
        perform penstock.wake_channels(v_queue.id, v_now);
        v_limits := true;
    end if;

    if not v_queue.paused then
        -- 2. A channel of weight above one whose turn is not over comes first.
        if v_limits and receive.served > 0 then
            return query select * from penstock.receive_rest(
                v_queue, v_start, receive.served, v_left, v_now, v_until);
            get diagnostics v_got = row_count;
            v_left := v_left - v_got;
        end if;

        -- 3. Channels in turn.
        v_visits := case when v_left >= 40 then (v_left + 3) / 4 else v_left end;
        while v_left > 0 loop
            select n.open, n.limited, n.place, n.lap into v_open, v_limited, v_place, v_lap
            from penstock.next_channels(
                v_queue, v_start, v_place, v_lap, v_visits, v_limits, v_now,
                receive.shard, receive.shards) n;
            if v_lap is null then
                v_visits := greatest(1, coalesce(cardinality(v_open), 0) + coalesce(cardinality(v_limited), 0));
            end if;
            v_share := (v_left + v_visits - 1) / v_visits;

            if v_open is not null then
                return query
                update penstock.message m
                set status = 2, attempt = m.attempt + 1, at = v_until, leased_at = v_now
                where m.id = any (array(
                    select head.id
                    from unnest(v_open) o (channel)
                    cross join lateral (
                        select r.id from penstock.message r
                        where r.queue_id = v_queue.id and r.channel = o.channel
                            and r.status = 0 and not r.limited
                        order by r.priority, r.id
                        limit v_share
                        for update skip locked
                    ) head
                    limit v_left
                ))
                returning m.id, m.attempt, m.channel::text, m.priority, m.payload, m.content_type,
                    m.headers, m.state, m.failures, m.crashes, m.sent_at, m.at,
                    v_until - v_now;
                get diagnostics v_got = row_count;
                v_left := v_left - v_got;
                v_any := v_any or v_got > 0;
            end if;
            if v_limited is not null and v_left > 0 then
                return query select * from penstock.receive_limited(
                    v_queue, v_limited, v_share, v_left, v_now, v_until);
                get diagnostics v_got = row_count;
                v_left := v_left - v_got;
                v_any := v_any or v_got > 0;
            end if;

            -- A turn is over: go round again while that finds anything.
            if v_lap is null then
                exit when not v_any;
                v_any := false;
                v_place := v_start;
                v_lap := 0;
            end if;
            v_visits := v_left;
        end loop;
    end if;

    if v_left = receive.max_messages then
        return query select * from penstock.nothing_ready(v_queue, v_now);
    end if;
end
$$;
