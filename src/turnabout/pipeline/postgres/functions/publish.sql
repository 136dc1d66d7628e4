-- Send what attempts have staged, with the note that the batch of the sink is published: all of it,
-- or nothing.
--
-- `state`: published, with `sent` and `duplicates`; already, with how many it was in `sent`; later,
-- if one that comes after it was published, with the newest in `sent`; incomplete, with how many
-- were found in `sent`; full, as send answers. `notified`: queues to notify.
create or replace function turnabout_pipeline.publish(
    sink text, batch bigint, attempts text[], messages bigint,
    now_ms turnabout.instant default null, out state text, out sent bigint, out duplicates bigint,
    out full_channel text, out max_size int, out size bigint, out notified text[]
) language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(publish.now_ms, turnabout.clock_ms());
    v_refusal json; v_is_new boolean; v_keyed record; v_part record; v_sent record;
begin
    -- 1. Dedup keys, as send_keyed takes them: a transaction that has written nothing yet can wait.
    for v_keyed in
        select s.queue, array_agg(distinct case
                when coalesce(u.scope, q.dedup_scope, 'queue') = 'channel'
                    then '/' || coalesce(u.channel, '') else '' end || ' ' || u.key) as keys
        from turnabout.stage s
        cross join unnest(s.channels, s.dedup_keys, s.dedup_scopes) u (channel, key, scope)
        left join turnabout.queue q on q.name = s.queue
        where s.attempt = any (publish.attempts) and s.dedup_keys is not null and u.key is not null
        group by s.queue order by s.queue
    loop
        perform turnabout.lock_keys(v_keyed.queue, v_keyed.keys);
    end loop;

    -- 2. The note: another publisher of the same batch waits here.
    insert into turnabout.sink_batch as b (sink, batch, messages, published_at)
    values (publish.sink, publish.batch, publish.messages, v_now) on conflict do nothing;
    v_is_new := found;
    select max(b.batch) into sent from turnabout.sink_batch b where b.sink = publish.sink;
    if sent > publish.batch then
        state := 'later';
        delete from turnabout.sink_batch b
        where v_is_new and b.sink = publish.sink and b.batch = publish.batch;
        return;
    end if;
    if not v_is_new then
        state := 'already';
        select b.messages into sent from turnabout.sink_batch b
        where b.sink = publish.sink and b.batch = publish.batch;
        delete from turnabout.stage s where s.attempt = any (publish.attempts);
        return;
    end if;

    -- 3. All of it is there, and is sent; or the note goes again.
    begin
        select coalesce(sum(s.messages), 0) into sent from turnabout.stage s
        where s.attempt = any (publish.attempts);
        if sent <> publish.messages then
            raise exception 'incomplete' using errcode = 'PQ429', detail = '{}';
        end if;
        -- Queue by queue, by name, so that two publishers lock dedup keys in one order; in each
        -- the attempts as they are named, their messages as they were staged.
        duplicates := 0; notified := '{}';
        for v_part in
            select s.*, a.at from unnest(publish.attempts) with ordinality a (attempt, at)
            join turnabout.stage s on s.attempt = a.attempt order by s.queue, a.at, s.nr
        loop
            select s.* into v_sent from turnabout.send(
                queue => v_part.queue, payloads => v_part.payloads,
                content_type => v_part.content_type, channels => v_part.channels,
                priorities => v_part.priorities, delays => v_part.delays,
                header_texts => v_part.headers, content_types => v_part.content_types,
                now_ms => v_now, ttls => v_part.ttls, dedup_keys => v_part.dedup_keys,
                dedup_modes => v_part.dedup_modes, dedup_windows => v_part.dedup_windows,
                dedup_scopes => v_part.dedup_scopes) s;
            if v_sent.ids is null then
                -- Without those of this batch, which go again.
                select v_sent.size - count(*) into size
                from unnest(publish.attempts) with ordinality a (attempt, at)
                join turnabout.stage s on s.attempt = a.attempt
                cross join unnest(s.payloads, s.channels) u (payload, channel)
                where s.queue = v_part.queue and (a.at, s.nr) < (v_part.at, v_part.nr)
                    and coalesce(coalesce(u.channel, '') = v_sent.full_channel, true);
                raise exception 'full' using errcode = 'PQ429', detail = json_build_object(
                    'full_channel', v_sent.full_channel, 'max_size', v_sent.max_size,
                    'size', size);
            end if;
            duplicates := duplicates + coalesce(cardinality(v_sent.duplicates), 0);
            if v_part.queue <> all (notified) then notified := notified || v_part.queue; end if;
        end loop;
        state := 'published';
    exception when sqlstate 'PQ429' then
        get stacked diagnostics v_refusal = pg_exception_detail;
        state := case when sent <> publish.messages then 'incomplete' else 'full' end;
        full_channel := v_refusal ->> 'full_channel';
        max_size := v_refusal ->> 'max_size'; size := v_refusal ->> 'size';
    end;
    if state = 'published' then
        delete from turnabout.stage s where s.attempt = any (publish.attempts);
        -- The newest note says enough of those before it.
        delete from turnabout.sink_batch b where b.sink = publish.sink and b.batch < publish.batch;
    else
        delete from turnabout.sink_batch b where b.sink = publish.sink and b.batch = publish.batch;
    end if;
end $$;
