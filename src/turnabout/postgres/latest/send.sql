-- Send one message by plain SQL, checked as the library checks it; answers with its id, or raises.
-- With a dedup key it is the id of the message that survives.
--
-- Three forms by the payload: text (a JSON object or list is sent as JSON, all else as text),
-- jsonb, bytea. No notification goes out, as it would stand in the way of all senders' commits:
-- receivers that wait see the message at their next look, within a second.
create or replace function turnabout.send(
    queue turnabout.target, payload bytea, channel text default '', priority int default 0,
    delay_seconds double precision default null, headers jsonb default null,
    content_type text default null, ttl_seconds double precision default null,
    dedup_key text default null, dedup_mode text default null,
    dedup_window_seconds double precision default null, dedup_scope text default null,
    due_at timestamptz default null
) returns bigint language plpgsql as $$
declare
    v_sent record;
    v_type text := coalesce(send.content_type, 'application/octet-stream');
begin
    perform turnabout.check_send(
        send.queue, send.payload, send.channel, send.priority, v_type, send.headers);
    perform turnabout.check_seconds('delay_seconds', send.delay_seconds, 0);
    if num_nonnulls(send.delay_seconds, send.due_at) > 1 then
        raise exception 'a message has a delay or a due_at, not both' using errcode = '22023';
    elsif not isfinite(send.due_at) or send.due_at < 'epoch' then
        raise exception 'due_at is an instant after 1970, not %', send.due_at
            using errcode = '22023';
    end if;
    perform turnabout.check_seconds('ttl_seconds', send.ttl_seconds, 0.001);
    perform turnabout.check_dedup(
        send.dedup_key, send.dedup_mode, send.dedup_window_seconds, send.dedup_scope);
    select * into v_sent from turnabout.send(
        queue => send.queue, payloads => array[send.payload], content_type => v_type,
        channels => array[coalesce(send.channel, '')],
        priorities => array[coalesce(send.priority, 0)::smallint],
        delays => array[turnabout.whole_ms(send.delay_seconds)],
        header_texts => array[nullif(send.headers, '{}')::text],
        ttls => array[turnabout.whole_ms(send.ttl_seconds)],
        dedup_keys => case when send.dedup_key is not null then array[send.dedup_key] end,
        dedup_modes => array[send.dedup_mode],
        dedup_windows => array[turnabout.whole_ms(send.dedup_window_seconds)],
        dedup_scopes => array[send.dedup_scope],
        dues => case when send.due_at is not null
            then array[ceil(extract(epoch from send.due_at) * 1000)::bigint] end
    );
    if v_sent.ids is null and v_sent.full_channel is null then
        raise exception 'the queue % holds % of % messages: nothing was sent',
            quote_literal(send.queue), v_sent.size, v_sent.max_size
            using errcode = 'PQ429', hint = 'repeat it later, or raise max_messages';
    elsif v_sent.ids is null then
        raise exception 'the channel % of the queue % holds % of % messages: nothing was sent',
            quote_literal(v_sent.full_channel), quote_literal(send.queue), v_sent.size,
            v_sent.max_size
            using errcode = 'PQ429', hint = 'repeat it later, or raise max_size';
    end if;
    return v_sent.ids[1];
end $$;

create or replace function turnabout.send(
    queue turnabout.target, payload text, channel text default '', priority int default 0,
    delay_seconds double precision default null, headers jsonb default null,
    content_type text default null, ttl_seconds double precision default null,
    dedup_key text default null, dedup_mode text default null,
    dedup_window_seconds double precision default null, dedup_scope text default null,
    due_at timestamptz default null
) returns bigint language sql as $$
    select turnabout.send(
        queue, convert_to(payload, 'UTF8'), channel, priority, delay_seconds, headers,
        coalesce(content_type, turnabout.text_type(payload)), ttl_seconds, dedup_key, dedup_mode,
        dedup_window_seconds, dedup_scope, due_at
    )
$$;

create or replace function turnabout.send(
    queue turnabout.target, payload jsonb, channel text default '', priority int default 0,
    delay_seconds double precision default null, headers jsonb default null,
    content_type text default 'application/json', ttl_seconds double precision default null,
    dedup_key text default null, dedup_mode text default null,
    dedup_window_seconds double precision default null, dedup_scope text default null,
    due_at timestamptz default null
) returns bigint language sql as $$
    select turnabout.send(
        queue, convert_to(payload::text, 'UTF8'), channel, priority, delay_seconds, headers,
        content_type, ttl_seconds, dedup_key, dedup_mode, dedup_window_seconds, dedup_scope, due_at
    )
$$;
