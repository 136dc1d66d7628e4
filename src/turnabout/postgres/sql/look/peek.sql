-- Unfinished messages by id, after `after_id`, of one state or channel if named. Locks nothing.
create or replace function turnabout.peek(
    queue text, most int, state text default null, channel turnabout.channel_name default null,
    after_id bigint default 0, now_ms turnabout.instant default null
) returns table (
    id bigint, is_now text, from_channel text, priority smallint, attempt int, failures int,
    crashes int, sent_at bigint, at bigint, payload bytea, content_type text, headers text,
    saved_state bytea, last_error text, origin text, expires_at bigint, cancel_requested boolean,
    ran_out boolean, errors text, note text, leased_at bigint
) language plpgsql set plan_cache_mode = force_custom_plan set jit = off as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(peek.queue);
    v_now bigint := coalesce(peek.now_ms, turnabout.clock_ms());
begin
    return query
    select m.id, p.state, m.channel::text, m.priority, coalesce(p.attempt, m.attempt), m.failures,
        m.crashes, m.sent_at, case p.state when 'ready' then m.sent_at else p.at end, m.payload,
        turnabout.type_of(m.content_type), m.headers, m.state, m.last_error, m.origin,
        m.expires_at, m.cancel_requested, p.state = 'leased' and p.at <= v_now,
        m.errors, m.note, p.leased_at
    from turnabout.next_places(v_queue, peek.most, peek.state, peek.channel, peek.after_id, v_now) p
    join turnabout.message m on m.id = p.id order by m.id;
end $$;
