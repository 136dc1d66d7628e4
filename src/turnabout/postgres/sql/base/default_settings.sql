-- Settings of a queue that is made by its first send, or that names none. The same as QueueSettings
-- in Python; a test compares them.
create or replace function turnabout.default_settings() returns jsonb
language sql immutable parallel safe as $$
    select '{
        "lease_ms": 30000, "max_attempts": 5, "max_deliveries": null, "backoff_ms": 1000,
        "backoff_max_ms": 3600000, "backoff_jitter_percent": 10, "delay_ms": 0,
        "fifo": false, "fifo_run": 1, "paused": false,
        "pause_reason": null, "on_exhausted": "dead_letter", "dead_letter": null, "ttl_ms": null,
        "max_messages": null, "queue_max_concurrency": null, "dedup_mode": "window",
        "dedup_window_ms": 300000, "dedup_scope": "queue", "history_ms": 604800000,
        "history_failed_ms": null,
        "history_payload": false, "events": "off", "labels": null
    }'::jsonb
$$;
