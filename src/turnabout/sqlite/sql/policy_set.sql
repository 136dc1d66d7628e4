-- Policy set: a channel's own policy on its row. A row without a policy is left to `maintain`.

-- name: set
-- The policy in the order of `POLICY_COLUMNS`; the channel is looked at again.
update turnabout_channel set max_concurrency = :max_concurrency,
  rate_count = :rate_count, rate_period_ms = :rate_period_ms, rate_burst = :rate_burst,
  rate_interval_us = :rate_interval_us, max_size = :max_size, weight = :weight, paused = :paused,
  paused_until = :paused_until, pause_reason = :pause_reason, wake_at = 0
where queue_id = :queue and name = :channel;

-- name: resume
-- A pause that is over is forgotten.
update turnabout_channel set paused_until = null, pause_reason = iif(paused, pause_reason, null)
where queue_id = ? and name = ?;
