-- Make a namespace, or set its quotas anew; null: not limited.
-- plans: free
create or replace function turnabout_server.namespace_set(
    name text, max_messages bigint default null, max_bytes bigint default null,
    requests_per_second int default null, now_ms turnabout.instant default null
) returns turnabout.namespace
language sql as $$
    insert into turnabout.namespace as n (
        name, max_messages, max_bytes, requests_per_second, created_at
    )
    values (
        namespace_set.name, namespace_set.max_messages, namespace_set.max_bytes,
        namespace_set.requests_per_second,
        coalesce(namespace_set.now_ms, turnabout.clock_ms())
    )
    on conflict (name) do update
    set max_messages = excluded.max_messages, max_bytes = excluded.max_bytes,
        requests_per_second = excluded.requests_per_second
    returning n.*
$$;
