-- Lease up to max_messages on the slow path: timers are due, channels or the queue have limits, a
-- shard is asked for, or others hold the messages. Answers as receive does; `at_ms` is the clock
-- that was passed in, if any.
create or replace function turnabout.receive_with_limits(
    queue turnabout.queue, max_messages int, lease_ms bigint, start text, served int, shard int,
    shards int, now_ms bigint, at_ms bigint
) returns setof turnabout.delivery language plpgsql as $$
declare
    v_ids bigint[]; v_at bigint; v_turn turnabout.delivery;
    v_most int := receive_with_limits.max_messages;
    v_own turnabout.queue_limit;  -- limits of the queue itself
    v_open record;                -- what they allow
begin
    -- 1. What the queue's own limits allow. Its row is locked before all others, and the clock read
    --    while it is held.
    if queue.queue_limited then
        v_own := turnabout.lock_queue_limit(queue, now_ms, 2 * max_messages + 100);
        if v_own.queue_id is null then
            return query select * from turnabout.nothing_ready(queue, now_ms);
            return;
        end if;
        at_ms := coalesce(at_ms, turnabout.clock_ms());
        v_open := turnabout.queue_allowance(queue, at_ms, v_own);
        v_most := least(v_open.messages, max_messages);
    end if;

    -- 2. Take, and lease.
    select t.ids, t.turn, t.turn_served, coalesce(t.at_ms, receive_with_limits.now_ms)
    into v_ids, v_turn.channel, v_turn.attempt, v_at
    from turnabout.run_timers_and_take(
        queue, v_most, start, served, shard, shards, receive_with_limits.now_ms,
        receive_with_limits.at_ms) t;
    if queue.queue_limited then
        perform turnabout.pay_queue_limit(queue, v_open.own, v_ids, v_at);
    end if;
    return query select * from turnabout.lease_taken(queue.id, v_ids, v_at, lease_ms);
    if not found and v_most = 0 and max_messages > 0 then
        select least(n.at, v_open.opens_at - v_at) into v_turn.at
        from turnabout.nothing_ready(queue, v_at, null) n;
        v_turn.attempt := 0;
        return query select v_turn.*;
        return;
    elsif not found then
        -- What is left may belong to shards that nobody serves.
        return query select * from turnabout.nothing_ready(
            queue, v_at, case when shards is null then 5 else 200 end);
        return;
    end if;
    if v_turn.channel is not null then return next v_turn; end if;
    if queue.events = 'all' then
        insert into turnabout.event (at, message_id, due_at, queue_id, attempt, kind, channel, note)
        select v_at, m.id, l.until, queue.id, m.attempt + 1, 'leased', m.channel, m.note
        from turnabout.message m join turnabout.lease l on l.id = currval('turnabout.lease_number')
        where m.id = any (v_ids);
    end if;
end $$;
