-- Change some settings of a live queue: `changes` holds columns of the queue, `fifo` not among
-- them. Answers with the row as it is from now on.
create or replace function turnabout.queue_update(
    queue text, changes jsonb, now_ms turnabout.instant default null
) returns turnabout.queue language plpgsql as $$  -- plans: free
declare
    v_old turnabout.queue; s turnabout.queue; v_row turnabout.queue;
begin
    -- 1. The settings, locked: what another changes at once is not undone.
    if changes ->> 'dead_letter' is not null then
        perform turnabout.lock_dead_letter_queues();
    end if;
    v_old := turnabout.find_queue(queue_update.queue, false);
    select * into v_old from turnabout.queue q where q.id = v_old.id for no key update;
    if not found then
        v_old := turnabout.find_queue(queue_update.queue, false);  -- deleted meanwhile: refused
    end if;
    s := jsonb_populate_record(v_old, queue_update.changes);

    -- 2. Change them. (Wait for a call that makes the dead-letter queue meanwhile; then check.)
    if (s.on_exhausted = 'block' or s.fifo_run > 1) and not v_old.fifo then
        raise exception '% needs fifo=True',
            case when s.fifo_run > 1 then 'fifo_run above 1' else 'on_exhausted=''block''' end
            using errcode = 'PQ409', hint = 'no other order is kept by it; make another queue';
    end if;
    if s.dead_letter is not null and s.dead_letter is distinct from v_old.dead_letter then
        perform turnabout.insert_queue(
            s.dead_letter, '{"max_attempts": null}',
            coalesce(queue_update.now_ms, turnabout.clock_ms()));
        perform turnabout.check_dead_letter_queue(v_old.name, s.dead_letter);
    end if;
    update turnabout.queue q set lease_ms = s.lease_ms, max_attempts = s.max_attempts,
        max_deliveries = s.max_deliveries, backoff_ms = s.backoff_ms,
        backoff_max_ms = s.backoff_max_ms, backoff_jitter_percent = s.backoff_jitter_percent,
        delay_ms = s.delay_ms, fifo_run = s.fifo_run, paused = s.paused,
        pause_reason = s.pause_reason,
        on_exhausted = s.on_exhausted, dead_letter = s.dead_letter, ttl_ms = s.ttl_ms,
        max_messages = s.max_messages, queue_max_concurrency = s.queue_max_concurrency,
        dedup_mode = s.dedup_mode, dedup_window_ms = s.dedup_window_ms, dedup_scope = s.dedup_scope,
        history_ms = s.history_ms, history_failed_ms = s.history_failed_ms,
        history_payload = s.history_payload, events = s.events,
        queue_rate_count = s.queue_rate_count, queue_rate_period_ms = s.queue_rate_period_ms,
        queue_rate_burst = s.queue_rate_burst, queue_rate_interval_us = s.queue_rate_interval_us,
        max_concurrency = s.max_concurrency, rate_count = s.rate_count,
        rate_period_ms = s.rate_period_ms, rate_burst = s.rate_burst,
        rate_interval_us = s.rate_interval_us, max_size = s.max_size, weight = s.weight,
        labels = s.labels,
        modified_at = case when s is distinct from v_old
            then coalesce(queue_update.now_ms, turnabout.clock_ms()) else q.modified_at end
    where q.id = v_old.id returning * into v_row;

    -- 3. Where more is to be kept, or counted, that holds for what is leased or delayed already.
    -- All channels look again.
    if v_row.history_ms > 0 and v_old.history_ms = 0
        or v_row.events = 'all' and v_old.events <> 'all' or v_row.limited and not v_old.limited
        or v_row.queue_limited and not v_old.queue_limited
    then
        insert into turnabout.recent_change (queue_id, queue) values (v_row.id, v_row.name);
    end if;
    insert into turnabout.wake (queue_id, channel)
    select v_row.id, c.name from turnabout.channel c where c.queue_id = v_row.id;
    return v_row;
end $$;
