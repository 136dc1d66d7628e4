-- Send what attempts have staged, with the note that the batch of the sink is published: all of it,
-- or nothing.
--
-- `state`: published, with `sent` and `duplicates`; already, with how many it was in `sent`; later,
-- if one that comes after it was published, with the newest in `sent`; incomplete, with how many
-- were found in `sent`; full, as send answers. `notified`: queues to notify.
-- plans: pinned
create or replace function turnabout_pipeline.publish(
    sink text, batch bigint, attempts text[], messages bigint,
    now_ms turnabout.instant default null, out state text, out sent bigint,
    out duplicates bigint, out full_channel text, out max_size int, out size bigint,
    out notified text[]
) language plpgsql as $$
declare
    v_now bigint := coalesce(publish.now_ms, turnabout.clock_ms());
    v_refusal json;
    v_is_new boolean;
    v_keyed record;
begin
    -- 1. Dedup keys, as send_keyed takes them: a transaction that has written nothing yet can wait.
    for v_keyed in
        select s.queue, array_agg(distinct case
                when coalesce(s.dedup_scope, q.dedup_scope, 'queue') = 'channel'
                    then '/' || s.channel else '' end || ' ' || s.dedup_key) as keys
        from turnabout.stage s
        left join turnabout.queue q on q.name = s.queue
        where s.attempt = any (publish.attempts) and s.dedup_key is not null
        group by s.queue
        order by s.queue
    loop
        perform turnabout.lock_keys(v_keyed.queue, v_keyed.keys);
    end loop;

    -- 2. The note: another publisher of the same batch waits here.
    insert into turnabout.sink_batch as b (sink, batch, messages, published_at)
    values (publish.sink, publish.batch, publish.messages, v_now)
    on conflict do nothing;
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
        select count(*) into sent from turnabout.stage s where s.attempt = any (publish.attempts);
        if sent <> publish.messages then
            raise exception 'incomplete' using errcode = 'PQ429', detail = '{}';
        end if;
        select p.duplicates, p.notified into publish.duplicates, publish.notified
        from turnabout_pipeline.publish_staged(publish.attempts, v_now) p;
        state := 'published';
    exception when sqlstate 'PQ429' then
        get stacked diagnostics v_refusal = pg_exception_detail;
        state := case when sent <> publish.messages then 'incomplete' else 'full' end;
        full_channel := v_refusal ->> 'full_channel';
        max_size := v_refusal ->> 'max_size';
        size := v_refusal ->> 'size';
    end;
    if state = 'published' then
        delete from turnabout.stage s where s.attempt = any (publish.attempts);
        -- The newest note says enough of those before it.
        delete from turnabout.sink_batch b
        where b.sink = publish.sink and b.batch < publish.batch;
    else
        delete from turnabout.sink_batch b
        where b.sink = publish.sink and b.batch = publish.batch;
    end if;
end
$$;
