-- If the schedule's next due time still is `due_at`: send its message, unless `skip` or an overlap
-- that it does not allow, and set the next due time. Where there is no room for the message, or it
-- is `refused`, that is counted. Answers with no row if it is not due; else
-- with the id of the message, null if it was left out, and the queue.
create or replace function turnabout.schedule_fire(
    name text, due_at bigint, next_at bigint, skip boolean default false,
    now_ms turnabout.instant default null, refused boolean default false
) returns table (id bigint, queue text) language plpgsql as $$  -- plans: free
declare
    v_lock bigint := hashtextextended('turnabout.schedule ' || schedule_fire.name, 0);
    s turnabout.schedule; t jsonb;
    v_due boolean := false;
begin
    -- 1. If another call holds the lock, it is fired, or about to be.
    if not pg_try_advisory_xact_lock(v_lock) then return; end if;
    select * into s from turnabout.schedule r
    where r.name = schedule_fire.name and r.next_at = schedule_fire.due_at and not r.paused;
    if not found then return; end if;

    -- 2. Send. (The header has the name without its namespace, which receivers do not see.)
    t := s.template;
    --    (Setting a schedule may put back a due time that was fired meanwhile.)
    if not skip and due_at > coalesce(s.last_at, -1) and not (s.overlap = 'skip' and exists (
        select from turnabout.message m
        join turnabout.queue q on q.id = m.queue_id where m.id = s.last_id and q.name = s.queue
    )) then
        v_due := true;
    end if;
    if v_due and not refused then
        select f.ids[1] into id from turnabout.send(
            s.queue, array[s.payload], t ->> 'content_type', array[t ->> 'channel'],
            array[(t ->> 'priority')::smallint], array[(t ->> 'delay_ms')::bigint],
            array[(coalesce(nullif(t -> 'headers', 'null'), '{}') || jsonb_build_object(
                'schedule', regexp_replace(s.name, '^.*/', ''), 'due-at', due_at::text))::text],
            null, now_ms, array[(t ->> 'ttl_ms')::bigint],
            case when t ->> 'dedup_key' is not null then array[t ->> 'dedup_key'] end,
            array[t ->> 'dedup_mode'], array[(t ->> 'dedup_window_ms')::bigint],
            array[t ->> 'dedup_scope']) f;
    end if;

    -- 3. Move on.
    update turnabout.schedule r set next_at = schedule_fire.next_at,
        last_at = case when id is null then r.last_at else due_at end,
        last_id = coalesce(id, r.last_id), sent = r.sent + (id is not null)::int,
        refused = r.refused + (v_due and id is null)::int
    where r.name = schedule_fire.name;
    queue := s.queue;
    return next;
end $$;
