-- The body of send_keyed, which has locked the keys. Refuses with SQLSTATE PQ429.
create or replace function turnabout.put_keyed(
    queue turnabout.queue, payloads bytea[], content_type text, channels text[],
    priorities smallint[], delays bigint[], headers text[], content_types text[], now_ms bigint,
    ttls bigint[], keys text[], modes text[], windows bigint[], scopes text[],
    out ids bigint[], out duplicates int[], out replaced int[]
) language plpgsql as $$
declare
    v_one record; v_id bigint; v_what text; v_until bigint;
    v_put bigint[] := '{}';
    v_replaced bigint[] := '{}';
    v_channels text[] := '{}';
    v_rows boolean := queue.limited
        or exists (select from turnabout.channel c where c.queue_id = queue.id);
    v_refusal json;
begin
    for v_one in
        select u.nr, u.payload, u.headers, u.key, coalesce(u.channel, '') as channel,
            coalesce(u.priority, 0::smallint) as priority,
            coalesce(u.delay, queue.delay_ms) as delay, coalesce(u.ttl, queue.ttl_ms) as ttl,
            coalesce(u.type, content_type) as content_type,
            coalesce(u.mode, queue.dedup_mode) as mode,
            coalesce(u.wide, queue.dedup_window_ms) as wide,
            case when coalesce(u.scope, queue.dedup_scope) = 'channel'
                then '/' || coalesce(u.channel, '') else '' end as scope
        from unnest(
            payloads, channels, priorities, delays, headers, content_types, ttls, keys, modes,
            windows, scopes
        ) with ordinality u (
            payload, channel, priority, delay, headers, type, ttl, key, mode, wide, scope, nr
        )
        order by u.nr
    loop
        -- 1. What the key's entry says.
        v_what := 'new';
        v_until := case when v_one.mode in ('window', 'sliding') then now_ms + v_one.wide end;
        if v_one.key is not null then
            select j.id, j.what into v_id, v_what
            from turnabout.judge_key(queue.id, v_one.scope, v_one.key, v_one.mode, now_ms) j;
        end if;

        -- 2. Suppressed; or the waiting one takes what came; or a message is put in.
        if v_what = 'duplicate' then
            if v_one.mode = 'sliding' then
                update turnabout.dedup d set until_ms = v_until
                where d.queue_id = queue.id and d.scope = v_one.scope and d.key = v_one.key;
            end if;
            duplicates := duplicates || (v_one.nr - 1)::int;
        elsif v_what = 'replace' then
            perform turnabout.replace_message(
                queue, v_id, v_one.payload, v_one.content_type, v_one.headers, v_one.priority,
                v_one.delay, now_ms + v_one.ttl, now_ms);
            if v_id <> all (v_put) then v_replaced := v_replaced || v_id; end if;
            replaced := replaced || (v_one.nr - 1)::int;
        else
            {{put id = nextval('turnabout.message_id_seq'); rows = (
                select queue.id as queue_id, v_one.channel, v_one.priority, now_ms as now,
                    v_one.delay, v_one.ttl, v_one.payload, v_one.content_type, v_one.headers
            )}}
            returning id into v_id;
            if v_one.key is not null then
                insert into turnabout.dedup (queue_id, scope, key, message_id, until_ms)
                values (queue.id, v_one.scope, v_one.key, v_id, v_until)
                on conflict (queue_id, scope, key) do update
                set message_id = excluded.message_id, until_ms = excluded.until_ms;
            end if;
            perform turnabout.give_places(queue, array[v_id], now_ms);
            v_put := v_put || v_id;
            v_channels := v_channels || v_one.channel;
        end if;
        ids := ids || v_id;
    end loop;
    if queue.events = 'all' then
        perform turnabout.note_events(queue, v_replaced, 'deferred', now_ms);
    end if;
    if cardinality(v_put) = 0 then return; end if;

    -- 3. Limits.
    if queue.max_messages is not null then
        select json_build_object('max_size', queue.max_messages, 'size', s.size) into v_refusal
        from turnabout.size_of(queue.id) s (size)
        where s.size + cardinality(v_put) > queue.max_messages;
    end if;
    if v_rows and v_refusal is null then
        select to_json(f) into v_refusal
        from turnabout.full_channel(queue, v_channels, cardinality(v_put), true) f;
    end if;
    if v_refusal is not null then
        raise exception 'full' using errcode = 'PQ429', detail = v_refusal;
    end if;

    -- 4. Count.
    insert into turnabout.tally (queue_id, sent) values (queue.id, cardinality(v_put));
    if queue.events = 'all' then
        perform turnabout.note_events(queue, v_put, 'created', now_ms);
    end if;
end $$;
