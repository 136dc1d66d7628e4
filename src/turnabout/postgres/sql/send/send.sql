-- Send messages, all or none. Locks nothing but the rows that it inserts.
--
-- One element of `payloads` is one message. The other arrays may be shorter or null: what is
-- missing takes the default (channel '', priority 0, the queue's delay and time to live, no
-- headers, no dedup key), so that a client need not repeat itself a thousand times. One of `dues`
-- is an instant, and stands for the delay from now to it. Messages with dedup keys take a way of
-- their own: send_keyed. `header_texts`, each a JSON object: no name that `send` for one message
-- has (latest/send.sql), or a call of that with headers fits both.
--
-- Answers with the ids in the order given; or with null ids and the first channel that would
-- outgrow its max_size; or with neither, if the queue would outgrow max_messages. Counts see what
-- is committed: a lock would let one open transaction block others.
create or replace function turnabout.send(
    queue turnabout.target, payloads turnabout.payload[],
    content_type turnabout.content_type default 'application/octet-stream',
    channels turnabout.channel_name[] default null, priorities smallint[] default null,
    delays turnabout.delay[] default null, header_texts turnabout.headers[] default null,
    content_types turnabout.content_type[] default null, now_ms turnabout.instant default null,
    ttls turnabout.span[] default null, dedup_keys turnabout.dedup_key[] default null,
    dedup_modes turnabout.dedup_mode[] default null, dedup_windows turnabout.span[] default null,
    dedup_scopes turnabout.dedup_scope[] default null, dues turnabout.due[] default null
) returns table (
    ids bigint[], full_channel text, max_size int, size bigint, duplicates int[], replaced int[]
) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue;  -- read only where more than the next five is needed
    v_queue_id int; v_delay_ms bigint; v_ttl_ms bigint; v_max_messages int; v_events boolean;
    v_now bigint := coalesce(send.now_ms, turnabout.clock_ms());
    v_rows boolean;
begin
    -- 0. This may write to the queue as it is read here (see settle_changes). Where the snapshot is
    --    older, the queue must not have been deleted since.
    lock table turnabout.ready in row exclusive mode;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform from turnabout.queue q where q.name = send.queue for key share;
    end if;
    if array_position(send.payloads, null) is not null then
        raise exception 'a message needs a payload, not null' using errcode = '22023';
    end if;
    if send.dues is not null then
        if exists (select from unnest(send.dues) u (due) where u.due > v_now + 31622400000) then
            raise exception 'due_at is at most 366 days ahead of the database''s clock'
                using errcode = '22023';
        end if;
        delays := array(
            select case when u.due is null then u.delay else greatest(0, u.due - v_now) end
            from unnest(send.dues, send.delays) with ordinality u (due, delay, nr) order by u.nr
        );
    end if;
    if send.dedup_keys is not null then
        return query select * from turnabout.send_keyed(
            send.queue, send.payloads, send.content_type, send.channels, send.priorities,
            send.delays, send.header_texts, send.content_types, v_now, send.ttls, send.dedup_keys,
            send.dedup_modes, send.dedup_windows, send.dedup_scopes);
        return;
    end if;
    for i in 1 .. 2 loop
        select q.id, q.delay_ms, q.ttl_ms, q.max_messages, q.events = 'all',
            q.limited or exists (select from turnabout.channel c where c.queue_id = q.id)
        into v_queue_id, v_delay_ms, v_ttl_ms, v_max_messages, v_events, v_rows
        from turnabout.queue q where q.name = send.queue;
        exit when found;
        perform turnabout.queue_create(send.queue, '{}', v_now);
    end loop;

    -- 1. Channels with a row, and all channels of a queue with limits: check sizes, mark as
    --    limited.
    if v_max_messages is not null then
        size := turnabout.size_of(v_queue_id);
        if size + cardinality(send.payloads) > v_max_messages then
            max_size := v_max_messages;
            return next;
            return;
        end if;
    end if;
    if v_rows then
        select q.* into v_queue from turnabout.queue q where q.id = v_queue_id;
        perform turnabout.know_sizes(v_queue);
        return query
            select null::bigint[], f.channel, f.max_size, f.size, null::int[], null::int[]
            from turnabout.full_channel(v_queue, send.channels, cardinality(send.payloads)) f;
        if found then return; end if;
    end if;

    -- 2. Insert, with ids that grow in the order given: they are taken first, so that no payload is
    --    sorted or handed back. If nothing is limited or due later, they also make the places.
    ids := array(
        select nextval('turnabout.message_id_seq')
        from generate_series(1, cardinality(send.payloads))
    );
    {{put id = m.id; rows = (
        select u.id, v_queue_id as queue_id, coalesce(u.channel, '') as channel,
            coalesce(u.priority, 0::smallint) as priority, v_now as now,
            coalesce(u.delay, v_delay_ms) as delay, coalesce(u.ttl, v_ttl_ms) as ttl,
            u.payload, coalesce(u.content_type, send.content_type) as content_type, u.headers
        from (
            select unnest(ids) as id, unnest(send.payloads) as payload,
                unnest(send.channels) as channel, unnest(send.priorities) as priority,
                unnest(send.delays) as delay, unnest(send.header_texts) as headers,
                unnest(send.content_types) as content_type, unnest(send.ttls) as ttl
        ) u
    )}};
    if not v_rows and send.delays is null and v_delay_ms = 0 then
        insert into turnabout.ready (id, expires_at, queue_id, priority, limited, channel)
        select u.id, v_now + coalesce(u.ttl, v_ttl_ms), v_queue_id,
            coalesce(u.priority, 0::smallint), false, coalesce(u.channel, '')
        from (
            select unnest(ids) as id, unnest(send.channels) as channel,
                unnest(send.priorities) as priority, unnest(send.ttls) as ttl
        ) u;
    else
        select q.* into v_queue from turnabout.queue q where q.id = v_queue_id;
        perform turnabout.give_places(v_queue, ids, v_now);
    end if;

    -- 3. Count.
    insert into turnabout.tally (queue_id, sent) values (v_queue_id, cardinality(send.payloads));
    if v_events then
        select q.* into v_queue from turnabout.queue q where q.id = v_queue_id;
        perform turnabout.note_events(v_queue, ids, 'created', v_now);
    end if;
    return next;
end $$;
