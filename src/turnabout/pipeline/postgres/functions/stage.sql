-- Put messages aside under the name of an attempt: `counts[n]` of them for the queue `queues[n]`,
-- one after the other in the other arrays. Each queue's are a row, with the arrays that send takes.
-- Arrays that are null leave the default, as there.
create or replace function turnabout_pipeline.stage(
    attempt text, queues text[], counts int[], payloads turnabout.payload[],
    content_type turnabout.content_type, content_types turnabout.content_type[] default null,
    channels turnabout.channel_name[] default null, priorities smallint[] default null,
    delays turnabout.delay[] default null, headers turnabout.headers[] default null,
    ttls turnabout.span[] default null, dedup_keys turnabout.dedup_key[] default null,
    dedup_modes turnabout.dedup_mode[] default null, dedup_windows turnabout.span[] default null,
    dedup_scopes turnabout.dedup_scope[] default null, now_ms turnabout.instant default null
) returns void language sql as $$  -- plans: free
    insert into turnabout.stage (
        attempt, staged_at, queue, messages, payloads, content_type, content_types, channels,
        priorities, delays, headers, ttls, dedup_keys, dedup_modes, dedup_windows, dedup_scopes
    )
    select stage.attempt, coalesce(stage.now_ms, turnabout.clock_ms()), u.queue, u.count,
        stage.payloads[a:b], stage.content_type, stage.content_types[a:b], stage.channels[a:b],
        stage.priorities[a:b], stage.delays[a:b], stage.headers[a:b], stage.ttls[a:b],
        stage.dedup_keys[a:b], stage.dedup_modes[a:b], stage.dedup_windows[a:b],
        stage.dedup_scopes[a:b]
    from (
        select c.queue, c.count, c.nr, sum(c.count) over (order by c.nr) - c.count + 1 as a,
            sum(c.count) over (order by c.nr) as b
        from unnest(stage.queues, stage.counts) with ordinality c (queue, count, nr)
    ) u
    order by u.nr
$$;
