-- Unfinished messages by id, after `after_id`, of one state or channel if named. Locks nothing.
create or replace function turnabout.peek(
    queue text, most int, state text default null, channel text default null,
    after_id bigint default 0, now_ms bigint default null
) returns table (
    id bigint, is_now text, from_channel text, priority smallint, attempt int, failures int,
    crashes int, sent_at bigint, at bigint, payload bytea, content_type text, headers text,
    saved_state bytea, last_error text, origin text, expires_at bigint, cancel_requested boolean
)
language plpgsql stable as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(peek.queue);
    v_now bigint := coalesce(peek.now_ms, turnabout.clock_ms());
begin
    return query
    select m.id, turnabout.state_of(m.status, m.at, v_now), m.channel::text, m.priority, m.attempt,
        m.failures, m.crashes, m.sent_at,
        case when m.status < 2 and m.at <= v_now then m.sent_at else m.at end,
        m.payload, m.content_type, m.headers, m.state, m.last_error, m.origin, m.expires_at,
        m.cancel_requested
    from turnabout.message m
    where m.queue_id = v_queue.id and m.id > peek.after_id
        and (peek.channel is null or m.channel = peek.channel)
        and (peek.state is null or turnabout.state_of(m.status, m.at, v_now) = peek.state)
    order by m.id
    limit peek.most;
end
$$;
