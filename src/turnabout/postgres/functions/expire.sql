-- End up to `most` waiting messages whose time to live has passed. What others hold is skipped.
create or replace function turnabout.expire(queue turnabout.queue, now_ms bigint, most int)
returns void
language plpgsql as $$
declare
    v_ids bigint[];
begin
    v_ids := array(
        select m.id from turnabout.message m
        where m.queue_id = queue.id and m.expires_at > 0 and m.expires_at <= now_ms
            and m.status < 2
        order by m.expires_at
        limit most
        for update skip locked
    );
    if cardinality(v_ids) > 0 then
        perform turnabout.end_messages(queue, v_ids, 4, now_ms);
    end if;
end
$$;
