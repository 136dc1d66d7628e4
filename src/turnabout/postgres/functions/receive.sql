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
    v_plain boolean;           -- nothing special is going on
    v_now bigint := coalesce(receive.now_ms, turnabout.clock_ms());
    -- Without a turn: after the last possible name, and so around to the first.
    v_start text collate "C" := coalesce(receive.turn, repeat(chr(1114111), 64));
    v_ids bigint[];
    v_next turnabout.delivery;
    v_got int;
    v_dead bigint := turnabout.dead_tuples_read();
begin
    -- 1. The queue, and whether nothing special is going on: no channel has or had a policy, nobody
    --    wants all events, and time has brought nothing: no message that is due, no lease that ran
    --    out, none that has expired. (Head marks count as expired at once, so the same look finds
    --    them. Scalar subqueries, as `exists` could become a hash of all rows.)
    select q.id, coalesce(receive.lease_ms, q.lease_ms),
        not q.paused and not q.limited and q.events <> 'all' and receive.shards is null
            and (
                select 1 from turnabout.channel c where c.queue_id = q.id limit 1
            ) is null
            and (select 1 from turnabout.wake w where w.queue_id = q.id limit 1) is null
            and (
                select 1 from turnabout.ready r
                where r.queue_id = q.id and r.expires_at <= v_now limit 1
            ) is null
    into v_queue_id, v_lease_ms, v_plain
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

    -- 2. The everyday case. A single message takes one small statement: the first of the next
    --    channel that nobody holds; at the end of the names, of the first. (No name lies between a
    --    name and that name with the least character after it.)
    if v_plain and receive.max_messages = 1 then
        return query
        with gone as (
            delete from turnabout.ready r
            where r.ctid = (
                select head.ctid
                from (values (v_start || chr(1)), ('')) lap (place)
                cross join lateral (
                    select e.ctid from turnabout.ready e
                    where e.queue_id = v_queue_id and not e.limited
                        and e.channel >= lap.place collate "C"
                    order by e.channel, e.priority, e.id
                    limit 1
                    for update skip locked
                ) head
                limit 1
            )
            returning r.id
        ),
        taken (
            id, attempt, channel, priority, payload, content_type, headers, state, failures,
            crashes, sent_at, origin, at, duration, lease
        ) as materialized (
            select m.id, m.attempt + 1, m.channel::text, m.priority,
                case when not receive.bare then m.payload end, turnabout.type_of(m.content_type),
                case when not receive.bare then m.headers end,
                case when not receive.bare then m.state end,
                m.failures, m.crashes, m.sent_at, m.origin, v_now + v_lease_ms, v_lease_ms,
                nextval('turnabout.lease_number')
            from gone g
            join turnabout.message m on m.id = g.id
        ),
        leased as (
            insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
            select t.lease, t.at, v_now, v_queue_id, array[t.id], array[t.attempt] from taken t
        )
        select * from taken;
        if found then
            if turnabout.dead_tuples_read() > v_dead + 16 then
                perform turnabout.set_head_marks(v_queue_id, v_start, 1);
            end if;
            return;
        end if;
    elsif v_plain then
        v_ids := (turnabout.take_many(
            v_queue_id, receive.max_messages, turnabout.quantum(receive.max_messages),
            v_start, false, v_now)).ids;
    end if;

    -- 3. Whatever is going on.
    if v_ids is null or cardinality(v_ids) = 0 then
        v_queue := turnabout.find_queue(receive.queue);
        v_queue_id := v_queue.id;
        v_lease_ms := coalesce(receive.lease_ms, v_queue.lease_ms);
        select t.ids, t.turn, t.turn_served, coalesce(t.at_ms, v_now)
        into v_ids, v_next.channel, v_next.attempt, v_now
        from turnabout.take_next(
            v_queue, receive.max_messages, v_start, receive.served, receive.shard, receive.shards,
            v_now, receive.now_ms) t;
    end if;

    -- 4. Lease it, or say when to ask again.
    return query select * from turnabout.lease_taken(
        v_queue_id, v_ids, v_now, v_lease_ms, receive.bare);
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
