-- Lease up to max_messages ready messages, the channels in turn.
--
-- Unlimited channels, the common ones, have no row anywhere. They are found by a skip scan: jump in
-- the index ready_line from one channel to the first entry of the next, a few microseconds each,
-- however many channels and messages there are. Nothing is locked but the entries that are taken,
-- and inside a channel what another receiver holds is stepped over, so many receivers may work one
-- channel. Limited channels stand in the table channel, in the same order by name; they are merged
-- in where one is awake.
--
-- A visit takes 1 message in batches under 8, 2 under 40, else 4, so that large batches need fewer
-- jumps and receivers that walk the same channels meet less often. When a whole turn gave less than
-- asked for, another goes over the channels that had more.
--
-- `bare` leaves out payloads, headers and states, for a caller that reads them elsewhere. Without
-- `check_due` what has become due is not looked for unless nothing else is there: for callers that
-- did so in the same millisecond.
--
-- One row per message. A last row without an id tells more: if it is alone, `at` says when it is
-- worth asking again; else where the turn goes on (`channel`, and in `attempt` how often it was
-- served).
-- plans: pinned
create or replace function turnabout.receive(
    queue text,
    max_messages int,
    lease_ms bigint default null,
    turn text default null,
    served int default 0,
    shard int default null,
    shards int default null,
    now_ms bigint default null,
    bare boolean default false,
    check_due boolean default true
) returns setof turnabout.delivery
language plpgsql as $$
declare
    v_queue turnabout.queue;  -- read only where more than the next four is needed
    v_queue_id int;
    v_lease_ms bigint;
    v_plain boolean;          -- not paused, no channel has a row, no events
    v_odd boolean := false;   -- time has brought something, or a head mark lies in the queue
    v_now bigint := coalesce(receive.now_ms, turnabout.clock_ms());
    -- Without a turn: after the last possible name, and so around to the first.
    v_start text collate "C" := coalesce(receive.turn, repeat(chr(1114111), 64));
    v_ids bigint[];
    v_next turnabout.delivery;
    v_got int;
begin
    -- 1. The queue, and what time has brought. Each `exists` costs microseconds, found or not.
    select q.id, q.lease_ms, not q.paused and not q.limited and q.events <> 'all'
            and not exists (select from turnabout.channel c where c.queue_id = q.id)
            and not exists (select from turnabout.wake w where w.queue_id = q.id)
    into v_queue_id, v_lease_ms, v_plain
    from turnabout.queue q
    cross join turnabout.whole
    where q.name = receive.queue;
    if v_queue_id is null then
        v_queue := turnabout.find_queue(receive.queue);
        v_queue_id := v_queue.id;
        v_lease_ms := v_queue.lease_ms;
        v_plain := false;
    end if;
    if receive.check_due then
        v_odd := turnabout.is_due(v_queue_id, v_now);
    else
        v_odd := exists (
            select from turnabout.ready r where r.queue_id = v_queue_id and r.expires_at = 0
        );
    end if;

    -- 2. Take what is next: one statement where nothing special is going on.
    if v_plain and not v_odd and receive.shards is null then
        if receive.max_messages = 1 then
            v_ids := array_remove(
                array[turnabout.take_one(v_queue_id, v_start, false, v_now)], null);
        else
            v_ids := (turnabout.take_many(
                v_queue_id, receive.max_messages, turnabout.quantum(receive.max_messages),
                v_start, false, v_now)).ids;
        end if;
    end if;
    if v_ids is null or cardinality(v_ids) = 0 then
        v_queue := turnabout.find_queue(receive.queue);
        select t.ids, t.turn, t.turn_served into v_ids, v_next.channel, v_next.attempt
        from turnabout.take_next(
            v_queue, receive.max_messages, v_start, receive.served, receive.shard, receive.shards,
            v_now) t;
    end if;

    -- 3. Lease it, or say when to ask again.
    return query select * from turnabout.lease_taken(
        v_queue_id, v_ids, v_now, coalesce(receive.lease_ms, v_lease_ms), receive.bare);
    get diagnostics v_got = row_count;
    if v_got = 0 then
        v_queue := turnabout.find_queue(receive.queue);
        return query select * from turnabout.nothing_ready(v_queue, v_now);
        return;
    end if;
    if v_next.channel is not null then
        return next v_next;
    end if;
    if v_queue.events = 'all' then
        perform turnabout.note_leases(v_queue, v_ids, v_now);
    end if;
end
$$;
