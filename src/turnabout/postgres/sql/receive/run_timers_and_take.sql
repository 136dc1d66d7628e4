-- Take up to `most` messages on the slow path: timers are due, channels have limits, a shard is
-- asked for, or others hold the messages. A bounded share of each. `at_ms` is take_turn_by_turn's.
create or replace function turnabout.run_timers_and_take(
    queue turnabout.queue, most int, start text, served int, shard int, shards int, now_ms bigint,
    inout at_ms bigint, out ids bigint[], out turn text, out turn_served int
) language plpgsql as $$
declare
    v_quantum int := turnabout.quantum(most);
    v_rows boolean;    -- some channel has, or had, limits
    v_limits boolean;  -- a limited channel has a say now
    v_some bigint[];
    v_dry boolean := false;
begin
    -- 1. What time has brought.
    ids := '{}';
    perform turnabout.expire(queue, now_ms, 2 * most + 500);
    perform turnabout.run_timers(queue, now_ms, 2 * most + 100);
    v_rows := exists (select from turnabout.channel c where c.queue_id = queue.id);
    v_limits := queue.limited
        or exists (select from turnabout.wake w where w.queue_id = queue.id)
        or v_rows and (
            exists (
                select from turnabout.channel c
                where c.queue_id = queue.id and c.awake_name is not null
            )
            or exists (
                select from turnabout.channel c where c.queue_id = queue.id and c.wake_at <= now_ms
            )
        );
    if v_limits then perform turnabout.wake_channels(queue.id, now_ms); end if;
    if queue.paused then return; end if;

    -- 2. Where no limited channel has a say, the line without limits is all.
    if not v_limits and shards is null then
        select t.ids, t.is_dry into ids, v_dry
        from turnabout.take_unlimited(queue.id, most, v_quantum, start, v_rows, now_ms) t;
    end if;

    -- 3. With limits that have a say now, or if others held all that was found: turn by turn.
    if v_limits or shards is not null or cardinality(ids) = 0 and not v_dry
        or cardinality(ids) < most and v_rows
    then
        select t.ids, t.turn, t.turn_served, t.at_ms into v_some, turn, turn_served, at_ms
        from turnabout.take_turn_by_turn(
            queue, most - cardinality(ids), v_quantum, start, served, v_limits or v_rows,
            shard, shards, now_ms, at_ms) t;
        ids := ids || v_some;
    end if;
end $$;
