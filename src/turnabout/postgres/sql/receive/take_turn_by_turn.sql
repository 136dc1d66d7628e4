-- Take up to `most` heads where channels with limits have a say, or a shard is asked for: limited
-- and unlimited channels in turn by name, by weight, from `start` on.
--
-- Each visit takes `quantum` times the channel's weight. Once a whole turn is in sight, what is
-- left is shared by weight, so that few channels need few rounds. Rounds that find only messages
-- that move over, or rows that others hold, could go on for long in a large queue: there is a
-- limit.
--
-- `served`: how many messages `start` has had in this turn. `turn` and `turn_served` tell where the
-- next turn starts; null: the messages themselves do.
--
-- `at_ms`: what slots and buckets are reckoned with, and so when the leases begin. Null: the clock
-- is read as soon as rows are held. A reading from before may be older than what others have done
-- to them meanwhile.
create or replace function turnabout.take_turn_by_turn(
    queue turnabout.queue, most int, quantum int, start text, served int, limits boolean,
    shard int, shards int, now_ms bigint, inout at_ms bigint,
    out ids bigint[], out turn text, out turn_served int
) language plpgsql as $$
declare
    v_left int := most;
    v_place text := start;    -- the last channel visited
    v_lap int := 0;           -- 0: up to the end of the names, 1: from their start
    v_end boolean;            -- the turn is over
    v_names text[]; v_takes int[]; v_kinds text[];
    v_served int;             -- how much of its weight the last channel was offered
    v_any boolean := false;   -- something was taken in this turn
    v_boost int := 1;         -- how many more channels to look at, after rounds that gave nothing
    v_before int;
    v_rest int;               -- of the turn of `start`
    v_has_limits boolean;
begin
    ids := '{}';

    -- 1. A channel that the end of the last batch has cut off comes first.
    if served > 0 then
        select coalesce(c.weight, queue.weight, 1) * quantum - served,
            turnabout.has_limits(queue, c)
        into v_rest, v_has_limits
        from turnabout.channel c
        where c.queue_id = queue.id and c.name = start collate "C" and c.awake;
        if v_rest > 0 and not v_has_limits then
            ids := turnabout.take_from_free_channels(
                queue, array[start], array[v_rest], v_left, now_ms);
        elsif v_rest > 0 then
            perform from turnabout.channel c
            where c.queue_id = queue.id and c.name = start collate "C" and c.awake
            for update skip locked;
            if found then
                at_ms := coalesce(at_ms, turnabout.clock_ms());
                ids := turnabout.take_from_limited_channels(
                    queue, array[start], array[v_rest], v_left, at_ms);
            end if;
        elsif v_rest is null and quantum > served and not queue.limited and not exists (
            select from turnabout.channel c
            where c.queue_id = queue.id and c.name = start collate "C"
        ) then
            ids := turnabout.take_from_channels(
                queue.id, false, array[start], array[quantum - served], v_left, now_ms, shard,
                shards);
        end if;
        if cardinality(ids) > 0 then
            turn := start;
            turn_served := served + cardinality(ids);
            v_left := v_left - cardinality(ids);
        end if;
    end if;

    -- 2. Round after round.
    for i in 1 .. 20 loop
        exit when v_left <= 0;
        v_before := v_left;
        select n.names, n.takes, n.kinds, n.served, n.place, n.lap, n.is_end
        into v_names, v_takes, v_kinds, v_served, v_place, v_lap, v_end
        from turnabout.next_channels(
            queue, start, v_place, v_lap, v_left, v_boost, quantum, limits, now_ms, shard,
            shards) n;

        if v_place is not null then
            turn := v_place; turn_served := v_served;
        end if;
        if 'open' = any (v_kinds) then
            select ids || turnabout.take_from_channels(
                queue.id, false, array_agg(o.channel), array_agg(o.take), v_left, now_ms, shard,
                shards)
            into ids
            from unnest(v_names, v_takes, v_kinds) o (channel, take, kind) where o.kind = 'open';
            v_left := most - cardinality(ids);
        end if;
        if v_left > 0 and 'free' = any (v_kinds) then
            select ids || turnabout.take_from_free_channels(
                queue, array_agg(o.channel), array_agg(o.take), v_left, now_ms)
            into ids
            from unnest(v_names, v_takes, v_kinds) o (channel, take, kind) where o.kind = 'free';
            v_left := most - cardinality(ids);
        end if;
        if v_left > 0 and 'limited' = any (v_kinds) then
            at_ms := coalesce(at_ms, turnabout.clock_ms());
            select ids || turnabout.take_from_limited_channels(
                queue, array_agg(o.channel), array_agg(o.take), v_left, at_ms)
            into ids
            from unnest(v_names, v_takes, v_kinds) o (channel, take, kind) where o.kind = 'limited';
            v_left := most - cardinality(ids);
        end if;
        v_any := v_any or v_left < v_before;

        -- Channels that have woken for nothing must not keep the others waiting: look at more of
        -- them. Then only the messages themselves tell where the turn has come to.
        if v_left = v_before then
            v_boost := least(4 * v_boost, 256);
        elsif v_boost > 1 then
            turn := null;
        end if;

        -- A turn is over: go round again while that finds anything.
        if v_end then
            exit when not v_any;
            v_any := false; v_place := start; v_lap := 0;
        end if;
    end loop;

    -- 3. Where others had less than their share, runs go on in the same batch.
    if v_left > 0 and queue.fifo and queue.fifo_run > 1 and cardinality(ids) > 0 then
        select ids || turnabout.take_from_limited_channels(
            queue, array_agg(s.channel), array_agg(v_left), v_left, at_ms, ids)
        into ids
        from (select distinct m.channel from turnabout.message m where m.id = any (ids)) s;
    end if;
end $$;
