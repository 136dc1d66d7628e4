-- Make or replace a schedule: `schedule` holds columns of turnabout.schedule, but for the payload.
-- What is refused of a message is refused of its template: each firing would fail of it. What it
-- has sent so far stays noted. A missing queue is made, as by a send: receivers may be there before
-- the first due time.
create or replace function turnabout.schedule_set(
    schedule jsonb, payload turnabout.payload, now_ms turnabout.instant default null
) returns turnabout.schedule language plpgsql as $$  -- plans: free
declare
    s turnabout.schedule := jsonb_populate_record(null::turnabout.schedule, schedule_set.schedule);
    v_row turnabout.schedule;
begin
    perform jsonb_populate_record(null::turnabout.template, s.template);
    if not exists (select from turnabout.queue q where q.name = s.queue) then
        perform turnabout.queue_create(s.queue, '{}', schedule_set.now_ms);
    end if;
    perform turnabout.lock_schedule(s.name);
    insert into turnabout.schedule (
        name, queue, template, payload, cron, zone, every_ms, anchor, at, missed, overlap, gap,
        fold, paused, next_at
    ) values (
        s.name, s.queue, s.template, schedule_set.payload, s.cron, s.zone, s.every_ms, s.anchor,
        s.at, s.missed, s.overlap, s.gap, s.fold, s.paused, s.next_at
    ) on conflict (name) do update
    set queue = excluded.queue, template = excluded.template, payload = excluded.payload,
        cron = excluded.cron, zone = excluded.zone, every_ms = excluded.every_ms,
        anchor = excluded.anchor, at = excluded.at, missed = excluded.missed,
        overlap = excluded.overlap, gap = excluded.gap, fold = excluded.fold,
        paused = excluded.paused, next_at = excluded.next_at
    returning * into v_row;
    return v_row;
end $$;
