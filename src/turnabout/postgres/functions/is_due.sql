-- Whether time has brought something: a message that is due, a lease that ran out, one that has
-- expired. Head marks count as expired at once, so the same look finds them.
create or replace function turnabout.is_due(queue_id int, now_ms bigint) returns boolean
language plpgsql as $$
begin
    return (
        select exists (
                select from turnabout.scheduled s
                where s.queue_id = q.id and s.at <= now_ms and s.at > q.timers_since
            )
            or exists (
                select from turnabout.lease l
                where l.queue_id = q.id and l.until <= now_ms and l.until > q.timers_since
            )
            or exists (
                select from turnabout.ready r
                where r.queue_id = q.id and r.expires_at <= now_ms
            )
            or exists (
                select from turnabout.scheduled s
                where s.queue_id = q.id and s.expires_at <= now_ms
            )
        from turnabout.queue q
        where q.id = is_due.queue_id
    );
end
$$;
