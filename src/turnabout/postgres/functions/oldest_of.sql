-- When the oldest message that is ready was sent, at a cost that does not grow with the backlog:
-- the oldest of the first one of the first channel without limits, the first one among limited
-- channels, and the first delayed one that is due. Null: nothing is ready, as far as 1000 messages
-- of limited channels tell.
create or replace function turnabout.oldest_of(queue_id int, now_ms bigint) returns bigint
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
    return least(
        (
            select m.sent_at from turnabout.message m
            where m.queue_id = oldest_of.queue_id and m.status = 0 and not m.limited and m.id > 0
            order by m.channel, m.priority, m.id
            limit 1
        ),
        (
            select m.sent_at
            from (
                select l.sent_at, l.status, l.at from turnabout.message l
                where l.queue_id = oldest_of.queue_id and l.limited
                order by l.channel, l.status, l.priority, l.id
                limit 1000
            ) m
            where m.status = 0 and m.at <= oldest_of.now_ms
            limit 1
        ),
        (
            select m.sent_at from turnabout.message m
            where m.queue_id = oldest_of.queue_id and m.status > 0 and m.status < 2
                and m.at <= oldest_of.now_ms and m.id > 0
            order by m.at, m.id
            limit 1
        )
    );
end
$$;
