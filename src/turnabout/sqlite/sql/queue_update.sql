-- Queue update: change settings of a live queue.

-- name: change
-- The settings in the order of `SETTINGS_COLUMNS`.
update turnabout_queue set dead_letter_id = :dead_letter_id,
  lease_ms = :lease_ms, max_attempts = :max_attempts, max_deliveries = :max_deliveries,
  backoff_ms = :backoff_ms, backoff_max_ms = :backoff_max_ms,
  backoff_jitter_percent = :backoff_jitter_percent, delay_ms = :delay_ms, fifo_run = :fifo_run,
  paused = :paused, pause_reason = :pause_reason, on_exhausted = :on_exhausted,
  dead_letter = :dead_letter, ttl_ms = :ttl_ms, max_messages = :max_messages,
  queue_max_concurrency = :queue_max_concurrency, dedup_mode = :dedup_mode,
  dedup_window_ms = :dedup_window_ms, dedup_scope = :dedup_scope, history_ms = :history_ms,
  history_failed_ms = :history_failed_ms, history_payload = :history_payload, events = :events,
  queue_rate_count = :queue_rate_count, queue_rate_period_ms = :queue_rate_period_ms,
  queue_rate_burst = :queue_rate_burst, queue_rate_interval_us = :queue_rate_interval_us,
  max_concurrency = :max_concurrency, rate_count = :rate_count, rate_period_ms = :rate_period_ms,
  rate_burst = :rate_burst, rate_interval_us = :rate_interval_us, max_size = :max_size,
  weight = :weight, labels = :labels, modified_at = :modified_at
where id = :id;

-- name: leased_channels
-- Channels with leases that no row counts yet.
select distinct channel from turnabout_message
where queue_id = :queue and status = 2 and at > 0 and limited = 0;

-- name: wake_all
-- Another default policy: every channel is looked at again.
update turnabout_channel set wake_at = 0
where queue_id = :queue and size > 0 and (wake_at is null or wake_at > 0);
