-- When the oldest message that is ready was sent, at a cost that does not grow with the backlog:
-- the oldest of the first one of the first channel without limits, the first one among limited
-- channels, and the first delayed one that is due. Null: nothing is ready, as far as 1000 messages
-- of limited channels tell.
create or replace function turnabout.oldest_of(queue_id int, now_ms bigint) returns bigint
language plpgsql stable set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
begin
    return least(
        (
            select m.sent_at from (
                {{entry what = r.id; queue = oldest_of.queue_id; after = >= '' and r.id > 0}}
            ) first
            join turnabout.message m on m.id = first.id
        ),
        (
            select m.sent_at from (
                select few.id from (
                    select r.id, r.at from turnabout.ready r
                    where r.queue_id = oldest_of.queue_id and r.limited
                    order by r.channel, r.priority, r.id limit 1000
                ) few
                where few.at is null or few.at <= oldest_of.now_ms limit 1
            ) first
            join turnabout.message m on m.id = first.id
        ),
        (
            select m.sent_at from (
                select s.id from turnabout.scheduled s
                where s.queue_id = oldest_of.queue_id and s.at <= oldest_of.now_ms
                order by s.at, s.id limit 1
            ) first
            join turnabout.message m on m.id = first.id
        )
    );
end $$;
