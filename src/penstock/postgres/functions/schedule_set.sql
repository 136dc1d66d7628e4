-- Make or replace a schedule: `schedule` holds columns of penstock.schedule, but for the payload.
-- What it has sent so far stays noted. A missing queue is made, as by a send: who receives may be
-- there before the first due time.
create or replace function penstock.schedule_set(
    schedule jsonb, payload bytea, now_ms bigint default null
) returns penstock.schedule
language plpgsql as $$
#variable_conflict use_column
declare
    s penstock.schedule := jsonb_populate_record(null::penstock.schedule, schedule_set.schedule);
    v_row penstock.schedule;
begin
    if not exists (select from penstock.queue q where q.name = s.queue) then
        perform penstock.queue_create(s.queue, '{}', schedule_set.now_ms);
    end if;
    perform penstock.lock_schedule(s.name);
    insert into penstock.schedule (
        name, queue, template, payload, cron, zone, every_ms, anchor, at, missed, overlap, gap,
        fold, paused, next_at
    )
    values (
        s.name, s.queue, s.template, schedule_set.payload, s.cron, s.zone, s.every_ms, s.anchor,
        s.at, s.missed, s.overlap, s.gap, s.fold, s.paused, s.next_at
    )
    on conflict (name) do update
    set queue = excluded.queue, template = excluded.template, payload = excluded.payload,
        cron = excluded.cron, zone = excluded.zone, every_ms = excluded.every_ms,
        anchor = excluded.anchor, at = excluded.at, missed = excluded.missed,
        overlap = excluded.overlap, gap = excluded.gap, fold = excluded.fold,
        paused = excluded.paused, next_at = excluded.next_at
    returning * into v_row;
    return v_row;
end
$$;
