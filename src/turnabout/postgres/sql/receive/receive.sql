-- Lease up to max_messages ready messages, the channels in turn.
--
-- Unlimited channels, the common ones, have no row anywhere. They are found by a skip scan: jump in
-- the index ready_line from one channel to the first entry of the next, a few microseconds each,
-- however many channels and messages there are. Nothing is locked but the entries that are taken,
-- and inside a channel what another receiver holds is stepped over, so many receivers may work one
-- channel. Limited channels stand in the table channel, in the same order by name; they are merged
-- in where one is awake.
--
-- A visit takes 1 message in batches under 10, 2 under 40, else 4, so that large batches need fewer
-- jumps and receivers that walk the same channels meet less often. When a whole turn gave less than
-- asked for, another goes over the channels that had more.
--
-- `bare` leaves out payloads, headers and states, for a caller that reads them elsewhere. Without
-- `check_due` what has become due is not looked for unless nothing else is there: for callers that
-- did so a moment ago.
--
-- With `ids` these are acked first, as `ack` does it, in the same transaction: a channel that one
-- of them kept closed is open for this receive.
--
-- One row per message. A last row without an id tells more: if it is alone, `at` says when it is
-- worth asking again; else where the turn goes on (`channel`, and in `attempt` how often it was
-- served). Where not all of `ids` were held, one more row has in `headers` what `ack` answers.
-- plans: pinned
create or replace function turnabout.receive(
    queue text,
    max_messages turnabout.batch,
    lease_ms turnabout.lease_time default null,
    turn text default null,
    served int default 0,
    shard int default null,
    shards int default null,
    now_ms turnabout.instant default null,
    ids bigint[] default null,
    attempts int[] default null,
    leases bigint[] default null,
    results turnabout.kept[] default null,
    result_types turnabout.content_type[] default null,
    bare boolean default false,
    check_due boolean default true
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_queue_id int;
    v_lease_ms bigint;
    v_keeps boolean;
    v_plain_queue text;
    v_walked bigint;
    v_found boolean := false;
    v_plain boolean;  -- nothing special is going on
    v_now bigint := coalesce(receive.now_ms, turnabout.clock_ms());
    -- Without a turn: after the last possible name, and so around to the first.
    v_start text collate "C" := coalesce(receive.turn, repeat(chr(1114111), 64));
    v_queue turnabout.queue;
    v_acked turnabout.delivery;
begin
    -- 0. This may lease under settings as they are read here (see settle_changes). Where the
    --    snapshot is older, it says so itself.
    lock table turnabout.ready in row exclusive mode;
    if current_setting('transaction_isolation') <> 'read committed' then
        insert into turnabout.recent_change (queue_id, queue)
        select q.id, q.name from turnabout.queue q where q.name = receive.queue;
    end if;
    if receive.check_due and exists (
        select from turnabout.recent_change c where c.queue = receive.queue
    ) then
        perform turnabout.settle_changes(receive.queue, receive.now_ms, false);
    end if;

    if receive.ids is not null then
        v_acked.headers := to_json(turnabout.ack(
            receive.queue, receive.ids, receive.attempts, receive.now_ms, true, receive.results,
            receive.result_types, receive.leases));
    end if;

    -- 1. The queue, and whether nothing special is going on: it has no limits, no channel has or
    --    had a policy, nobody wants all events, and time has brought nothing: no message that is
    --    due, no lease that ran out, none that has expired. (Scalar subqueries, as `exists` could
    --    become a hash of all rows.)
    select q.id, coalesce(receive.lease_ms, q.lease_ms), q.history_ms > 0,
        case when q.history_ms = 0 or not q.history_payload then q.name end,
        not q.paused and not q.limited and not q.queue_limited and q.events <> 'all'
            and receive.shards is null and (
                select 1 from turnabout.channel c where c.queue_id = q.id limit 1
            ) is null
            and (select 1 from turnabout.wake w where w.queue_id = q.id limit 1) is null
            and (
                select 1 from turnabout.ready r
                where r.queue_id = q.id and r.expires_at > 0 and r.expires_at <= v_now
                limit 1
            ) is null
    into v_queue_id, v_lease_ms, v_keeps, v_plain_queue, v_plain
    from turnabout.queue q
    cross join turnabout.whole
    where q.name = receive.queue;

    if v_plain and receive.check_due then
        select (
                select 1 from turnabout.lease l
                where l.queue_id = q.id and l.until <= v_now and l.until > q.timers_since limit 1
            ) is null and (
                select 1 from turnabout.scheduled s
                where s.queue_id = q.id and s.at <= v_now and s.at > q.timers_since limit 1
            ) is null and (
                select 1 from turnabout.scheduled s
                where s.queue_id = q.id and s.expires_at <= v_now limit 1
            ) is null
        into v_plain
        from turnabout.queue q
        where q.id = v_queue_id;
    end if;

    -- 2. The everyday case; and all others, also where others hold what is there.
    if v_plain and receive.max_messages between 1 and 20 and not receive.bare then
        v_walked := turnabout.line_walked();
        return query
        {{receive_many
            queue = receive.queue;
            channel = receive.turn;
            most = receive.max_messages;
            lease_ms = v_lease_ms;
            now = v_now}};
        v_found := found;
        if v_found and turnabout.line_walked() > v_walked + 160 then
            perform turnabout.set_head_marks(v_queue_id, l.ids)
            from turnabout.lease l
            where l.id = currval('turnabout.lease_number');
        end if;
    elsif v_plain then
        return query select * from turnabout.lease_taken(
            v_queue_id,
            (turnabout.take_unlimited(
                v_queue_id, receive.max_messages, turnabout.quantum(receive.max_messages), v_start,
                false, v_now)).ids,
            v_now, v_lease_ms, receive.bare, v_plain_queue, v_keeps);
        v_found := found;
    end if;
    if not v_found then
        v_queue := turnabout.find_queue(receive.queue);
        return query select * from turnabout.receive_with_limits(
            v_queue, receive.max_messages, coalesce(receive.lease_ms, v_queue.lease_ms), v_start,
            receive.served, receive.shard, receive.shards, v_now, receive.now_ms, receive.bare);
    end if;
    if v_acked.headers is not null then
        return next v_acked;
    end if;
end
$$;
