-- Put messages aside under the name of an attempt, in the order given. Arrays that are null leave
-- the default, as in send.
-- plans: free
create or replace function turnabout_pipeline.stage(
    attempt text, queues text[], payloads bytea[], content_types text[],
    channels text[] default null, priorities smallint[] default null, delays bigint[] default null,
    headers text[] default null, ttls bigint[] default null, dedup_keys text[] default null,
    dedup_modes text[] default null, dedup_windows bigint[] default null,
    dedup_scopes text[] default null, now_ms bigint default null
) returns void
language plpgsql as $$
declare
    v_now bigint := coalesce(stage.now_ms, turnabout.clock_ms());
begin
    insert into turnabout.stage (
        attempt, staged_at, queue, channel, priority, content_type, headers, payload, delay, ttl,
        dedup_key, dedup_mode, dedup_window, dedup_scope
    )
    select stage.attempt, v_now, u.queue, coalesce(u.channel, ''),
        coalesce(u.priority, 0::smallint), u.content_type, u.headers, u.payload, u.delay, u.ttl,
        u.dedup_key, u.dedup_mode, u.dedup_window, u.dedup_scope
    from unnest(
        stage.queues, stage.payloads, stage.content_types, stage.channels, stage.priorities,
        stage.delays, stage.headers, stage.ttls, stage.dedup_keys, stage.dedup_modes,
        stage.dedup_windows, stage.dedup_scopes
    ) with ordinality u (
        queue, payload, content_type, channel, priority, delay, headers, ttl, dedup_key,
        dedup_mode, dedup_window, dedup_scope, nr
    )
    order by u.nr;
end
$$;
