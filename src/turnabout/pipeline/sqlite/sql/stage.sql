-- Stage: messages are put aside.

-- name: add
-- One.
insert into turnabout_stage (
  attempt, staged_at, queue, channel, priority, delay_ms, ttl_ms, dedup_key, dedup_mode,
  dedup_window_ms, dedup_scope, headers, content_type, payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_alike
-- As many as there are rows of values, which share all the rest: that is bound once.
with put (queue, channel, headers, dedup_key, payload) as (values (?, ?, ?, ?, ?))
insert into turnabout_stage (
  attempt, staged_at, priority, delay_ms, ttl_ms, dedup_mode, dedup_window_ms, dedup_scope,
  content_type, queue, channel, headers, dedup_key, payload
)
select ?, ?, ?, ?, ?, ?, ?, ?, ?, queue, channel, headers, dedup_key, payload from put;
