-- Make a namespace, or set its quotas anew: `quotas` holds columns of turnabout.namespace; null:
-- not limited.
create or replace function turnabout_server.namespace_set(
    quotas jsonb, now_ms turnabout.instant default null
) returns turnabout.namespace language sql as $$  -- plans: free
    insert into turnabout.namespace as n select q.*
    from jsonb_populate_record(
        null::turnabout.namespace,
        quotas || jsonb_build_object('created_at', coalesce(now_ms, turnabout.clock_ms()))
    ) q
    on conflict (name) do update
    set max_messages = excluded.max_messages, max_bytes = excluded.max_bytes,
        requests_per_second = excluded.requests_per_second, max_queues = excluded.max_queues,
        max_policies = excluded.max_policies, max_schedules = excluded.max_schedules,
        max_history_bytes = excluded.max_history_bytes, max_polls = excluded.max_polls,
        weight = excluded.weight
    returning n.*
$$;
