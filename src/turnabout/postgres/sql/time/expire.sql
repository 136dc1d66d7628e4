-- End up to `most` waiting messages whose time to live has passed; skips those held by others.
create or replace function turnabout.expire(queue turnabout.queue, now_ms bigint, most int)
returns void language plpgsql as $$
declare
    v_ids bigint[];
begin
    with gone as (
        delete from turnabout.ready r where r.ctid = any (array(
            select e.ctid from turnabout.ready e
            where e.queue_id = queue.id and e.expires_at > 0 and e.expires_at <= now_ms
            order by e.expires_at limit most for update skip locked
        ))
        returning r.id
    ),
    gone_later as (
        delete from turnabout.scheduled s where s.ctid = any (array(
            select e.ctid from turnabout.scheduled e
            where e.queue_id = queue.id and e.expires_at <= now_ms order by e.expires_at limit most
            for update skip locked
        ))
        returning s.id
    )
    select array_agg(g.id) into v_ids
    from (select gone.id from gone union all select gone_later.id from gone_later) g;
    if v_ids is not null then perform turnabout.end_messages(queue, v_ids, 4, now_ms); end if;
end $$;
