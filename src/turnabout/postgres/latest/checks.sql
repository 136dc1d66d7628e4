-- What turnabout.send refuses of plain SQL: the limits of words/limits.py, with the same words.
create or replace function turnabout.check_send(
    queue text, payload bytea, channel text, priority int, content_type text, headers jsonb
) returns void language plpgsql immutable as $$
begin
    if queue is null or queue !~ '^([A-Za-z0-9][A-Za-z0-9_.-]*/)?[A-Za-z0-9][A-Za-z0-9_.-]*$'
    then
        raise exception '% is not a valid queue name: use letters, digits, ''_'', ''.'' and ''-'','
            ' and start with a letter or digit', coalesce(quote_literal(left(queue, 80)), 'null')
            using errcode = '22023';
    elsif exists (
        select from unnest(string_to_array(queue, '/')) part
        where length(regexp_replace(part, '-dead$', '')) > 80
    ) then
        raise exception 'a queue''s name has at most 80 characters, not %', length(queue)
            using errcode = '22023';
    elsif payload is null then
        raise exception 'a message needs a payload, not null' using errcode = '22023';
    elsif octet_length(payload) > 1048576 then
        raise exception 'the payload has % bytes, over the limit of 1048576: store it elsewhere and'
            ' send its address', octet_length(payload) using errcode = '22023';
    elsif octet_length(convert_to(channel, 'UTF8')) > 255 then
        raise exception 'a channel''s name has at most 255 bytes in UTF-8, not %',
            octet_length(convert_to(channel, 'UTF8')) using errcode = '22023';
    elsif priority not between -32768 and 32767 then
        raise exception 'priority is -32768 to 32767, not %', priority using errcode = '22023';
    elsif length(content_type) not between 1 and 255
        or content_type ~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
    then
        raise exception 'a content type has 1 to 255 printable characters' using errcode = '22023';
    elsif headers is not null then
        perform turnabout.check_headers(headers);
    end if;
end $$;

-- Headers are a JSON object of texts: 64 of them, 16 KiB together, names not empty.
create or replace function turnabout.check_headers(headers jsonb) returns void
language plpgsql immutable as $$
declare
    v_count bigint; v_bytes bigint; v_good boolean;
begin
    if jsonb_typeof(headers) <> 'object' then
        raise exception 'headers are a JSON object of texts, not %', jsonb_typeof(headers)
            using errcode = '22023';
    end if;
    select count(*), bool_and(h.key <> '' and jsonb_typeof(h.value) = 'string'),
        sum(octet_length(convert_to(h.key, 'UTF8'))
            + octet_length(convert_to(coalesce(h.value #>> '{}', ''), 'UTF8')))
    into v_count, v_good, v_bytes
    from jsonb_each(headers) h;
    if not v_good then
        raise exception 'headers are a JSON object of texts, and a header''s name is not empty'
            using errcode = '22023';
    elsif v_count > 64 or v_bytes > 16384 then
        raise exception 'a message has at most 64 headers of 16384 bytes together, not % of %',
            v_count, v_bytes using errcode = '22023';
    end if;
end $$;

-- Seconds from a least number to 366 days; null is allowed.
create or replace function turnabout.check_seconds(
    what text, seconds double precision, lowest double precision
) returns void language plpgsql immutable as $$
begin
    if seconds not between check_seconds.lowest and 31622400 then
        raise exception '% is % to 31622400 seconds, not %', what, check_seconds.lowest, seconds
            using errcode = '22023';
    end if;
end $$;

-- Options of dedup have known values, and need a key.
create or replace function turnabout.check_dedup(
    key text, mode text, window_seconds double precision, scope text
) returns void language plpgsql immutable as $$
begin
    perform turnabout.check_seconds('dedup_window_seconds', window_seconds, 0.001);
    if key is null and num_nonnulls(mode, window_seconds, scope) > 0 then
        raise exception 'dedup_mode, dedup_window_seconds and dedup_scope need a dedup_key'
            using errcode = '22023';
    elsif octet_length(convert_to(key, 'UTF8')) not between 1 and 255 then
        raise exception 'a dedup key has 1 to 255 bytes in UTF-8' using errcode = '22023';
    elsif mode not in (
        'window', 'sliding', 'until_started', 'until_finished', 'latest', 'rerun'
    ) then
        raise exception 'dedup_mode is one of window, sliding, until_started, until_finished,'
            ' latest, rerun, not %', quote_literal(mode) using errcode = '22023';
    elsif scope not in ('queue', 'channel') then
        raise exception 'dedup_scope is one of queue, channel, not %', quote_literal(scope)
            using errcode = '22023';
    end if;
end $$;

-- Seconds as whole milliseconds, rounded up so that nothing comes early.
create or replace function turnabout.whole_ms(seconds double precision) returns bigint
language sql immutable as $$
    select ceil(round((seconds * 1000)::numeric, 6))::bigint
$$;

-- The content type of a text: JSON if it is an object or a list, as on the command line.
create or replace function turnabout.text_type(payload text) returns text
language plpgsql immutable as $$
begin
    if payload ~ E'^\\s*[[{]' then
        perform payload::json;
        return 'application/json';
    end if;
    return 'text/plain; charset=utf-8';
exception when invalid_text_representation or statement_too_complex then  -- the latter: too deep
    return 'text/plain; charset=utf-8';
end $$;
