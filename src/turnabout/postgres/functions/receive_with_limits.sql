-- Lease up to max_messages where something may be going on: time has brought something, channels
-- have limits, a shard is asked for, others hold what is there. Answers as receive does; `at_ms` is
-- the clock that was passed in, if any.
create or replace function turnabout.receive_with_limits(
    queue turnabout.queue, max_messages int, lease_ms bigint, start text, served int, shard int,
    shards int, now_ms bigint, at_ms bigint, bare boolean
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_ids bigint[];
    v_at bigint;
    v_turn turnabout.delivery;
begin
    select t.ids, t.turn, t.turn_served, coalesce(t.at_ms, receive_with_limits.now_ms)
    into v_ids, v_turn.channel, v_turn.attempt, v_at
    from turnabout.take_next(
        queue, max_messages, start, served, shard, shards, receive_with_limits.now_ms,
        receive_with_limits.at_ms) t;
    return query select * from turnabout.lease_taken(queue.id, v_ids, v_at, lease_ms, bare);
    if not found then
        -- What is there may be all of other shards, for as long as nobody works there.
        return query select * from turnabout.nothing_ready(
            queue, v_at, case when shards is null then 5 else 200 end);
        return;
    end if;
    if v_turn.channel is not null then
        return next v_turn;
    end if;
    if queue.events = 'all' then
        perform turnabout.note_leases(queue, v_ids, v_at);
    end if;
end
$$;
