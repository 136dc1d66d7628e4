-- Lease up to `most` messages, limited and unlimited channels in turn by name, by weight, from
-- `start` on.
--
-- Each visit takes `quantum` times the channel's weight. Once a whole turn is in sight, what is
-- left is shared by weight, so that few channels need few rounds. Rounds that find only messages
-- that move over, or rows that others hold, could go on for long in a large queue: there is a
-- limit.
--
-- A last row without an id tells where the next turn starts: `channel`, and in `attempt` how often
-- it was served.
create or replace function turnabout.receive_turns(
    queue turnabout.queue,
    most int,
    quantum int,
    start text,
    served int,
    limits boolean,
    shard int,
    shards int,
    now_ms bigint,
    until_ms bigint,
    bare boolean default false
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_left int := most;
    v_place text := start;    -- the last channel visited
    v_lap int := 0;           -- 0: up to the end of the names, 1: from their start
    v_end boolean;            -- the turn is over
    v_names text[];
    v_takes int[];
    v_limited boolean[];
    v_served int;             -- how much of its weight the last channel was offered
    v_got int;
    v_any boolean := false;   -- something was taken in this turn
    v_boost int := 1;         -- how many more channels to look at, after rounds that gave nothing
    v_before int;
    v_weight int;
    v_turn turnabout.delivery;  -- the answer's last row
begin
    -- 1. A channel of weight above one whose turn is not over comes first.
    if limits and served > 0 then
        select coalesce(c.weight, queue.weight, 1) into v_weight
        from turnabout.channel c
        where c.queue_id = queue.id and c.name = start collate "C" and c.awake
        for update skip locked;
        if v_weight > served then
            return query select * from turnabout.receive_limited(
                queue, array[start], array[v_weight - served], v_left, now_ms, until_ms,
                bare);
            get diagnostics v_got = row_count;
            v_left := v_left - v_got;
            v_turn.channel := start;
            v_turn.attempt := served + v_got;
        end if;
    end if;

    -- 2. Round after round.
    for i in 1 .. 20 loop
        exit when v_left <= 0;
        v_before := v_left;
        select n.names, n.takes, n.limited, n.served, n.place, n.lap, n.is_end
        into v_names, v_takes, v_limited, v_served, v_place, v_lap, v_end
        from turnabout.next_channels(
            queue, start, v_place, v_lap, v_left, v_boost, quantum, limits, now_ms, shard,
            shards) n;

        if v_place is not null then
            v_turn.channel := v_place;
            v_turn.attempt := v_served;
        end if;
        if false = any (v_limited) then
            return query
            update turnabout.message m
            set status = 2, attempt = m.attempt + 1, at = until_ms, leased_at = now_ms
            where m.id = any (array(
                select head.id
                from unnest(v_names, v_takes, v_limited) o (channel, take, limited)
                cross join lateral (
                    select r.id from turnabout.message r
                    where r.queue_id = queue.id and r.channel = o.channel
                        and r.status = 0 and not r.limited and r.id + 0 > 0
                        and (r.expires_at is null or r.expires_at > now_ms)
                    order by r.priority, r.id
                    limit o.take
                    for update skip locked
                ) head
                where not o.limited
                limit v_left
            ))
            returning m.id, m.attempt, m.channel::text, m.priority,
                case when not bare then m.payload end, m.content_type,
                case when not bare then m.headers end, case when not bare then m.state end,
                m.failures, m.crashes, m.sent_at, m.origin, m.at, until_ms - now_ms;
            get diagnostics v_got = row_count;
            v_left := v_left - v_got;
            v_any := v_any or v_got > 0;
        end if;
        if v_left > 0 and true = any (v_limited) then
            return query
            select d.*
            from (
                select array_agg(o.channel) as channels, array_agg(o.take) as takes
                from unnest(v_names, v_takes, v_limited) o (channel, take, limited)
                where o.limited
            ) l
            cross join lateral turnabout.receive_limited(
                queue, l.channels, l.takes, v_left, now_ms, until_ms, bare) d;
            get diagnostics v_got = row_count;
            v_left := v_left - v_got;
            v_any := v_any or v_got > 0;
        end if;

        -- Channels that have woken for nothing must not keep the others waiting: look at more of
        -- them. Then only the messages themselves tell where the turn has come to.
        if v_left = v_before then
            v_boost := least(4 * v_boost, 256);
        elsif v_boost > 1 then
            v_turn := null;
        end if;

        -- A turn is over: go round again while that finds anything.
        if v_end then
            exit when not v_any;
            v_any := false;
            v_place := start;
            v_lap := 0;
        end if;
    end loop;
    if v_left < most and v_turn.channel is not null then
        return next v_turn;
    end if;
end
$$;
