-- Write a policy into its channel's row, which the caller has locked, and wake the channel.
create or replace function turnabout.apply_policy(queue_id int, channel text, policy jsonb)
returns void language sql as $$
    update turnabout.channel c set max_concurrency = p.max_concurrency,
        rate_count = p.rate_count,
        rate_period_ms = p.rate_period_ms,
        rate_burst = p.rate_burst,
        rate_interval_us = p.rate_interval_us,
        max_size = p.max_size,
        weight = p.weight,
        paused = coalesce(p.paused, false),
        paused_until = p.paused_until,
        pause_reason = p.pause_reason,
        own = jsonb_strip_nulls(policy - 'paused') <> '{}' or coalesce(p.paused, false),
        awake = true,
        wake_at = null
    from jsonb_populate_record(null::turnabout.channel, policy) p
    where c.queue_id = apply_policy.queue_id and c.name = apply_policy.channel
$$;
