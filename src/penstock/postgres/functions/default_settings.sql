-- Settings of a queue that is made by its first send, or that names none. The same as QueueSettings
-- in Python; a test compares them.
create or replace function penstock.default_settings() returns jsonb
language sql immutable parallel safe as $$
    select '{
        "lease_ms": 30000, "max_attempts": 5, "backoff_ms": 1000, "backoff_max_ms": 3600000,
        "backoff_jitter_percent": 10, "delay_ms": 0, "fifo": false, "paused": false,
        "dead_letter": null, "history_ms": 604800000
    }'::jsonb
$$;
