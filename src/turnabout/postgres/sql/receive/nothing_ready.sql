-- When it is worth asking an empty queue again: at the first due message, end of a lease or waking
-- of a channel; soon, if something is there that others hold. `at` is milliseconds from now; null:
-- only a send can help.
create or replace function turnabout.nothing_ready(
    queue turnabout.queue, now_ms bigint, soon_ms int default 5
) returns setof turnabout.delivery language plpgsql stable as $$
declare
    v_next turnabout.delivery;
begin
    if not queue.paused then
        select least(
            (select s.at from turnabout.scheduled s
            where s.queue_id = queue.id and s.at > queue.timers_since order by s.at limit 1),
            (select l.until from turnabout.lease l
            where l.queue_id = queue.id and l.until > queue.timers_since order by l.until limit 1),
            (select c.wake_at from turnabout.channel c
            where c.queue_id = queue.id and c.wake_at is not null order by c.wake_at limit 1),
            -- In a FIFO queue a head that expires lets the next one through.
            case when queue.fifo then (
                select r.expires_at from turnabout.ready r
                where r.queue_id = queue.id and r.expires_at > now_ms order by r.expires_at limit 1
            ) end,
            now_ms + case turnabout.line_is_empty(queue.id)
                when true then null when false then soon_ms else 1000 end,
            case when exists (
                select from turnabout.channel c
                where c.queue_id = queue.id and c.awake_name is not null
            ) or exists (
                select from turnabout.wake w where w.queue_id = queue.id
            ) then now_ms + soon_ms end
        ) into v_next.at;
        v_next.at := case when v_next.at is not null then greatest(v_next.at - now_ms, 0) end;
    end if;
    v_next.attempt := 0;  -- for nothing at all is known by a row of nulls
    return next v_next;
end $$;
