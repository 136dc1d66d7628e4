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
-- With `ids` these are acked first, as `ack` does it, in the same transaction: a channel that one
-- of them kept closed is open for this receive.
--
-- `within` a transaction that goes on afterwards, as that of a caller's own work, nothing is waited
-- for, and what has become due is not looked for unless nothing else is there. Where channels have
-- limits, receive locks the rows of those that it looks at, and looks at more and more of them
-- while it meets rows that others hold; there they would stay locked, and nobody else could use
-- these channels. So it looks first and undoes that, which frees all these rows; then it starts
-- right before the channel that had something.
--
-- `run`: so many messages of a channel of a FIFO queue may be in it, though its `fifo_run` is less.
--
-- One row per message. A last row without an id tells more: if it is alone, `at` says when it is
-- worth asking again; else where the turn goes on (`channel`, and in `attempt` how often it was
-- served). Where not all of `ids` were held, one more row has in `headers` what `ack` answers.
create or replace function turnabout.receive(
    queue text, max_messages turnabout.batch, lease_ms turnabout.lease_time default null,
    turn text default null, served int default 0, shard int default null, shards int default null,
    now_ms turnabout.instant default null, ids bigint[] default null, attempts int[] default null,
    leases bigint[] default null, results turnabout.kept[] default null,
    result_types turnabout.content_type[] default null, check_due boolean default true,
    within boolean default false, run int default 1
) returns setof turnabout.delivery language plpgsql as $$  -- plans: pinned
declare
    v_queue_id int; v_lease_ms bigint; v_walked bigint;
    v_found boolean := false;
    v_plain boolean;  -- nothing special is going on
    v_now bigint := coalesce(receive.now_ms, turnabout.clock_ms());
    -- Without a turn: after the last possible name, and so around to the first.
    v_start text collate "C" := coalesce(receive.turn, repeat(chr(1114111), 64));
    v_channel text; v_last int; v_queue turnabout.queue; v_acked turnabout.delivery;
begin
    -- 0. This may lease under settings as they are read here (see settle_changes). Where the
    --    snapshot is older, it says so itself.
    lock table turnabout.ready in row exclusive mode;
    if current_setting('transaction_isolation') <> 'read committed' then
        insert into turnabout.recent_change (queue_id, queue)
        select q.id, q.name from turnabout.queue q where q.name = receive.queue;
    end if;
    if receive.check_due and not receive.within and exists (
        select from turnabout.recent_change c where c.queue = receive.queue
    ) then
        perform turnabout.settle_changes(receive.queue, receive.now_ms, false);
    end if;

    if receive.ids is not null then
        v_acked.headers := to_json(turnabout.ack(
            receive.queue, receive.ids, receive.attempts, receive.now_ms, not receive.within,
            receive.results, receive.result_types, receive.leases));
    end if;

    if receive.within and exists (
        select from turnabout.queue q
        where q.name = receive.queue
            and (q.limited or q.queue_limited
                or exists (select from turnabout.channel c where c.queue_id = q.id))
    ) then
        -- Which channel has something that nobody holds? Undone by an error.
        begin
            select d.channel into v_channel from turnabout.receive(
                receive.queue, 1, receive.lease_ms, receive.turn, receive.served, receive.shard,
                receive.shards, receive.now_ms) d
            where d.id is not null;
            raise exception 'looked only' using errcode = 'PQ000';
        exception
            when sqlstate 'PQ000' then null;
        end;
        -- The place right before it: before the first of all names, that is after the last one.
        if v_channel is not null then
            receive.served := 0;
            v_last := ascii(right(v_channel, 1));
            v_start := case
                when v_channel = '' then repeat(chr(1114111), 64)
                when v_last = 1 then left(v_channel, -1)
                else left(v_channel, -1)
                    || chr(case v_last when 57344 then 55295 else v_last - 1 end)
                    || repeat(chr(1114111), 64)
            end;
        end if;
    end if;

    -- 1. The queue, and whether nothing special is going on: it has no limits, no channel has or
    --    had a policy, nobody wants all events, and time has brought nothing: no message that is
    --    due, no lease that ran out, none that has expired. (Scalar subqueries, as `exists` could
    --    become a hash of all rows.)
    select q.id, coalesce(receive.lease_ms, q.lease_ms),
        not q.paused and not q.limited and not q.queue_limited and q.events <> 'all'
            and receive.shards is null and (
                select 1 from turnabout.channel c where c.queue_id = q.id limit 1
            ) is null
            and (select 1 from turnabout.wake w where w.queue_id = q.id limit 1) is null
            and (
                select 1 from turnabout.ready r
                where r.queue_id = q.id and r.expires_at > 0 and r.expires_at <= v_now limit 1
            ) is null
    into v_queue_id, v_lease_ms, v_plain
    from turnabout.queue q cross join turnabout.whole where q.name = receive.queue;

    if v_plain and receive.check_due and not receive.within then
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
        from turnabout.queue q where q.id = v_queue_id;
    end if;

    -- 2. The everyday case; and all others, also where others hold what is there.
    if v_plain and receive.max_messages > 0 then
        v_walked := turnabout.line_walked();
        return query
        {{receive_many
            queue = receive.queue;
            channel = v_start;
            most = receive.max_messages;
            lease_ms = v_lease_ms;
            now = v_now}};
        v_found := found;
        if v_found and turnabout.line_walked() > v_walked + 112
            + 16 * receive.max_messages / turnabout.quantum(receive.max_messages)
        then
            perform turnabout.set_head_marks(v_queue_id, l.ids)
            from turnabout.lease l where l.id = currval('turnabout.lease_number');
        end if;
    end if;
    if not v_found then
        v_queue := turnabout.find_queue(receive.queue);
        v_queue.fifo_run := greatest(v_queue.fifo_run, receive.run);
        return query select * from turnabout.receive_with_limits(
            v_queue, receive.max_messages, coalesce(receive.lease_ms, v_queue.lease_ms), v_start,
            receive.served, receive.shard, receive.shards, v_now, receive.now_ms);
    end if;
    if v_acked.headers is not null then return next v_acked; end if;
end $$;
