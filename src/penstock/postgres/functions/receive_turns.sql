-- Lease up to `most` messages, the channels in turn from `start` on, limited and unlimited ones merged by
-- name; round after round while that finds anything. A round that finds only channels whose
-- messages move over, or rows that others hold, may go on for ever in a large queue: there is a limit.
create or replace function penstock.receive_turns(
    queue penstock.queue,
    most int,
    start text,
    served int,
    limits boolean,
    shard int,
    shards int,
    now_ms bigint,
    until_ms bigint
) returns setof penstock.delivery
language plpgsql as $$
#variable_conflict use_column
declare
    v_left int := most;
    v_place text := start;    -- the last channel visited
    v_lap int := 0;           -- 0: up to the end of the names, 1: from their start, null: turn over
    v_visits int;
    v_share int;
    v_open text[];            -- unlimited channels to take from
    v_limited text[];         -- limited ones, their rows locked
    v_got int;
    v_any boolean := false;   -- something was taken in this turn
    v_rounds int := 0;
begin
    -- 1. A channel of weight above one whose turn is not over comes first.
    if limits and served > 0 then
        return query select * from penstock.receive_rest(
            queue, start, served, v_left, now_ms, until_ms);
        get diagnostics v_got = row_count;
        v_left := v_left - v_got;
    end if;

    -- 2. Channels in turn.
    v_visits := case when v_left >= 40 then (v_left + 3) / 4 else v_left end;
    while v_left > 0 and v_rounds < 20 loop
        v_rounds := v_rounds + 1;
        select n.open, n.limited, n.place, n.lap into v_open, v_limited, v_place, v_lap
        from penstock.next_channels(
            queue, start, v_place, v_lap, v_visits, limits, now_ms,
            shard, shards) n;
        if v_lap is null then
            v_visits := greatest(1, coalesce(cardinality(v_open), 0) + coalesce(cardinality(v_limited), 0));
        end if;
        v_share := (v_left + v_visits - 1) / v_visits;

        if v_open is not null then
            return query
            update penstock.message m
            set status = 2, attempt = m.attempt + 1, at = until_ms, leased_at = now_ms
            where m.id = any (array(
                select head.id
                from unnest(v_open) o (channel)
                cross join lateral (
                    select r.id from penstock.message r
                    where r.queue_id = queue.id and r.channel = o.channel
                        and r.status = 0 and not r.limited and r.id + 0 > 0
                    order by r.priority, r.id
                    limit v_share
                    for update skip locked
                ) head
                limit v_left
            ))
            returning m.id, m.attempt, m.channel::text, m.priority, m.payload, m.content_type,
                m.headers, m.state, m.failures, m.crashes, m.sent_at, m.at,
                until_ms - now_ms;
            get diagnostics v_got = row_count;
            v_left := v_left - v_got;
            v_any := v_any or v_got > 0;
        end if;
        if v_limited is not null and v_left > 0 then
            return query select * from penstock.receive_limited(
                queue, v_limited, v_share, v_left, now_ms, until_ms);
            get diagnostics v_got = row_count;
            v_left := v_left - v_got;
            v_any := v_any or v_got > 0;
        end if;

        -- A turn is over: go round again while that finds anything.
        if v_lap is null then
            exit when not v_any;
            v_any := false;
            v_place := start;
            v_lap := 0;
        end if;
        v_visits := v_left;
    end loop;
end
$$;
