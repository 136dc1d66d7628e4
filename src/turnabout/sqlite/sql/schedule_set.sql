-- Schedule set: make or replace a schedule; its record of sent messages stays.

-- name: set
-- The schedule.
insert into turnabout_schedule (
  name, queue, template, payload, cron, zone, every_ms, anchor, at, missed, overlap, gap, fold,
  paused, next_at
) values (
  :name, :queue, :template, :payload, :cron, :zone, :every_ms, :anchor, :at, :missed, :overlap,
  :gap, :fold, :paused, :next_at
) on conflict (name) do update
set queue = excluded.queue, template = excluded.template, payload = excluded.payload,
  cron = excluded.cron, zone = excluded.zone, every_ms = excluded.every_ms,
  anchor = excluded.anchor, at = excluded.at, missed = excluded.missed,
  overlap = excluded.overlap, gap = excluded.gap, fold = excluded.fold,
  paused = excluded.paused, next_at = excluded.next_at;
