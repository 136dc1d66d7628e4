-- Unfinished messages by id, after `after_id`, of one state or channel if named. Locks nothing.
-- plans: free
create or replace function turnabout.peek(
    queue text, most int, state text default null, channel text default null,
    after_id bigint default 0, now_ms bigint default null
) returns table (
    id bigint, is_now text, from_channel text, priority smallint, attempt int, failures int,
    crashes int, sent_at bigint, at bigint, payload bytea, content_type text, headers text,
    saved_state bytea, last_error text, origin text, expires_at bigint, cancel_requested boolean
)
language plpgsql
set plan_cache_mode = force_custom_plan
set jit = off
as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(peek.queue);
    v_now bigint := coalesce(peek.now_ms, turnabout.clock_ms());
begin
    return query
    select m.id, p.state, m.channel::text, m.priority, p.attempt, m.failures, m.crashes, m.sent_at,
        case p.state when 'ready' then m.sent_at else p.at end, m.payload,
        turnabout.type_of(m.content_type), m.headers, m.state, m.last_error, m.origin,
        m.expires_at, m.cancel_requested
    from (
        select u.id, u.state, u.attempt, u.at
        from (
            select r.id, case when r.at > v_now then 'scheduled' else 'ready' end as state,
                null::int as attempt, r.at
            from turnabout.ready r
            where r.queue_id = v_queue.id and r.id > peek.after_id
                and (peek.channel is null or r.channel = peek.channel)
            union all
            select s.id, case when s.at > v_now then 'scheduled' else 'ready' end, null, s.at
            from turnabout.scheduled s
            where s.queue_id = v_queue.id and s.id > peek.after_id
                and (peek.channel is null or s.channel = peek.channel)
            union all
            select l.id, 'leased', l.attempt, l.until
            from turnabout.leased_messages(array[v_queue.id]) l
            where l.id > peek.after_id and (peek.channel is null or l.channel = peek.channel)
        ) u
        where peek.state is null or u.state = peek.state
        order by u.id
        limit peek.most
    ) f
    cross join lateral (
        select f.state, coalesce(f.attempt, w.attempt) as attempt, f.at
        from turnabout.message w where w.id = f.id
    ) p
    join turnabout.message m on m.id = f.id
    order by m.id;
end
$$;
