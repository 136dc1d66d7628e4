-- Put messages aside under the name of an attempt, in the order given. Arrays that are null leave
-- the default, as in send.
-- plans: free
create or replace function turnabout_pipeline.stage(
    attempt text, queues text[], payloads turnabout.payload[],
    content_types turnabout.content_type[], channels turnabout.channel_name[] default null,
    priorities smallint[] default null, delays turnabout.delay[] default null,
    headers turnabout.headers[] default null, ttls turnabout.span[] default null,
    dedup_keys turnabout.dedup_key[] default null, dedup_modes turnabout.dedup_mode[] default null,
    dedup_windows turnabout.span[] default null,
    dedup_scopes turnabout.dedup_scope[] default null, now_ms turnabout.instant default null
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
