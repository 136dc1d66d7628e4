-- Send messages, all or none. Locks nothing but the rows that it inserts.
--
-- One element of `payloads` is one message. The other arrays may be shorter or null: what is
-- missing takes the default (channel '', priority 0, the queue's delay, no headers), so that a
-- client need not repeat itself a thousand times.
--
-- Answers with the ids in the order given, or with the first channel that would outgrow its
-- max_size. That count sees what is committed: a lock would let one open transaction block others.
create or replace function penstock.send(
    queue text,
    payloads bytea[],
    content_type text default 'application/octet-stream',
    channels text[] default null,
    priorities smallint[] default null,
    delays bigint[] default null,
    headers text[] default null,
    content_types text[] default null,
    now_ms bigint default null
) returns table (ids bigint[], full_channel text, max_size int, size bigint)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_queue penstock.queue;
    v_now bigint := coalesce(send.now_ms, penstock.clock_ms());
    v_rows boolean;
    v_channels text[];
begin
    select * into v_queue from penstock.queue q where q.name = send.queue;
    if not found then
        perform penstock.queue_create(send.queue, '{}', v_now);
        v_queue := penstock.find_queue(send.queue);  -- ours, or that of another who was first
    end if;

    -- 1. Channels with a row, and all channels of a queue with limits: check sizes, mark as
    --    limited.
    v_rows := v_queue.limited
        or exists (select from penstock.channel c where c.queue_id = v_queue.id);
    if v_rows then
        return query select null::bigint[], f.channel, f.max_size, f.size
            from penstock.full_channel(v_queue, send.channels, cardinality(send.payloads)) f;
        if found then
            return;
        end if;
    end if;

    -- 2. Insert, in the order given: ids grow in that order.
    with put as (
        insert into penstock.message (
            queue_id, channel, priority, status, limited, at, sent_at, payload, content_type,
            headers
        )
        select v_queue.id, m.channel, m.priority,
            case when m.delay > 0 and not v_queue.fifo then 1 else 0 end,
            v_queue.limited or v_rows and (
                select 1 from penstock.channel c
                where c.queue_id = v_queue.id and c.name = m.channel
            ) is not null,
            v_now + m.delay, v_now, m.payload, m.content_type, m.headers
        from (
            select u.nr, u.payload, u.headers,
                coalesce(u.channel, '') as channel,
                coalesce(u.priority, 0::smallint) as priority,
                coalesce(u.delay, v_queue.delay_ms) as delay,
                coalesce(u.content_type, send.content_type) as content_type
            from unnest(
                send.payloads, send.channels, send.priorities, send.delays, send.headers,
                send.content_types
            ) with ordinality u (payload, channel, priority, delay, headers, content_type, nr)
        ) m
        order by m.nr
        returning message.id, message.channel, message.limited
    )
    select array_agg(put.id order by put.id),
        array_agg(distinct put.channel) filter (where put.limited)
    into ids, v_channels
    from put;

    -- 3. Tell limited channels, and count.
    if v_channels is not null then
        insert into penstock.wake (queue_id, channel) select v_queue.id, unnest(v_channels);
    end if;
    insert into penstock.tally (queue_id, sent) values (v_queue.id, cardinality(send.payloads));
    return next;
end
$$;
