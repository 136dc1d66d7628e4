-- Take up to `most` heads where channels with limits have a say, or a shard is asked for: limited
-- and unlimited channels in turn by name, by weight, from `start` on.
--
-- Each visit takes `quantum` times the channel's weight. Once a whole turn is in sight, what is
-- left is shared by weight, so that few channels need few rounds. Rounds that find only messages
-- that move over, or rows that others hold, could go on for long in a large queue: there is a
-- limit.
--
-- `served`: how much of its weight `start` has had in this turn. `turn` and `turn_served` tell
-- where the next turn starts; null: the messages themselves do.
--
-- `at_ms`: what slots and buckets are reckoned with, and so when the leases begin. Null: the clock
-- is read as soon as rows are held. A reading from before may be older than what others have done
-- to them meanwhile.
create or replace function turnabout.take_turns(
    queue turnabout.queue, most int, quantum int, start text, served int, limits boolean,
    shard int, shards int, now_ms bigint, inout at_ms bigint,
    out ids bigint[], out turn text, out turn_served int
)
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
    v_some bigint[];
    v_any boolean := false;   -- something was taken in this turn
    v_boost int := 1;         -- how many more channels to look at, after rounds that gave nothing
    v_before int;
    v_weight int;
begin
    ids := '{}';

    -- 1. A channel of weight above one whose turn is not over comes first.
    if limits and served > 0 then
        select coalesce(c.weight, queue.weight, 1) into v_weight
        from turnabout.channel c
        where c.queue_id = queue.id and c.name = start collate "C" and c.awake
        for update skip locked;
        if v_weight > served then
            at_ms := coalesce(at_ms, turnabout.clock_ms());
            ids := turnabout.take_limited(
                queue, array[start], array[v_weight - served], v_left, at_ms);
            turn := start;
            turn_served := served + cardinality(ids);
            v_left := v_left - cardinality(ids);
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
            turn := v_place;
            turn_served := v_served;
        end if;
        if false = any (v_limited) then
            with gone as (
                delete from turnabout.ready r
                where r.ctid = any (array(
                    select head.ctid
                    from unnest(v_names, v_takes, v_limited) o (channel, take, limited)
                    cross join lateral (
                        select e.ctid from turnabout.ready e
                        where e.queue_id = queue.id and not e.limited and e.channel = o.channel
                            and e.id + 0 > 0
                            and (e.expires_at is null or e.expires_at > now_ms)
                        order by e.priority, e.id
                        limit o.take
                        for update skip locked
                    ) head
                    where not o.limited
                    limit v_left
                ))
                returning r.id
            )
            select array_agg(g.id) into v_some from gone g;
            ids := ids || v_some;
            v_left := most - cardinality(ids);
        end if;
        if v_left > 0 and true = any (v_limited) then
            at_ms := coalesce(at_ms, turnabout.clock_ms());
            select ids || turnabout.take_limited(
                queue, array_agg(o.channel), array_agg(o.take), v_left, at_ms)
            into ids
            from unnest(v_names, v_takes, v_limited) o (channel, take, limited)
            where o.limited;
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
            v_any := false;
            v_place := start;
            v_lap := 0;
        end if;
    end loop;
end
$$;
