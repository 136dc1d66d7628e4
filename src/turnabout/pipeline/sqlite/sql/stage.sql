-- Stage: messages are put aside.

-- name: add
-- One.
insert into turnabout_stage (
  attempt, staged_at, queue, channel, priority, delay_ms, ttl_ms, dedup_key, dedup_mode,
  dedup_window_ms, dedup_scope, headers, content_type, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
