-- Counts of one queue, or of all by name. Live messages are counted, finished ones come from the
-- tally.
create or replace function penstock.stats(queue text default null, now_ms bigint default null)
returns table (
    name text, scheduled bigint, ready bigint, leased bigint, sent bigint, done bigint,
    dead bigint, cancelled bigint, expired bigint, oldest_ready_ms bigint, paused boolean,
    pause_reason text
)
language plpgsql stable as $$
#variable_conflict use_column
declare
    v_now bigint := coalesce(stats.now_ms, penstock.clock_ms());
begin
    if stats.queue is not null then
        perform penstock.find_queue(stats.queue);
    end if;
    return query
    select q.name::text, m.scheduled, m.ready, m.leased, t.sent, t.done, t.dead, t.cancelled,
        t.expired, v_now - m.oldest_ready_at, q.paused, q.pause_reason
    from penstock.queue q
    cross join lateral (
        select count(*) filter (where s.state = 'scheduled') as scheduled,
            count(*) filter (where s.state = 'ready') as ready,
            count(*) filter (where s.state = 'leased') as leased,
            min(s.sent_at) filter (where s.state = 'ready') as oldest_ready_at
        from (
            select penstock.state_of(r.status, r.at, v_now) as state, r.sent_at
            from penstock.message r where r.queue_id = q.id and r.id > 0
        ) s
    ) m
    cross join lateral (
        select coalesce(sum(p.sent), 0)::bigint as sent, coalesce(sum(p.done), 0)::bigint as done,
            coalesce(sum(p.dead), 0)::bigint as dead,
            coalesce(sum(p.cancelled), 0)::bigint as cancelled,
            coalesce(sum(p.expired), 0)::bigint as expired
        from penstock.tally p where p.queue_id = q.id
    ) t
    where stats.queue is null or q.name = stats.queue
    order by q.name;
end
$$;
