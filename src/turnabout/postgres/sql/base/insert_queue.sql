-- One row of turnabout.queue from settings over the defaults; null if there is one already.
-- A dead-letter queue keeps its messages until somebody ends them: without
-- max_attempts, unless told.
create or replace function turnabout.insert_queue(name text, settings jsonb, now_ms bigint)
returns turnabout.queue language plpgsql as $$
declare
    s turnabout.queue := jsonb_populate_record(
        null::turnabout.queue,
        turnabout.default_settings()
            || case when insert_queue.name like '%-dead' then '{"max_attempts": null}'
                else '{}' end::jsonb
            || insert_queue.settings);
    v_row turnabout.queue;
begin
    if (insert_queue.name collate "C")
        !~ E'^([A-Za-z0-9][\\w.-]{0,79}(-dead)?/)?[A-Za-z0-9][\\w.-]{0,79}(-dead)?$'
    then
        raise exception '% is not a valid queue name: use letters, digits, ''_'', ''.'' and ''-'','
            ' and start with a letter or digit; it has at most 80 characters',
            quote_literal(left(insert_queue.name, 80))
            using errcode = '22023';
    end if;
    insert into turnabout.queue (
        name, lease_ms, max_attempts, max_deliveries, backoff_ms, backoff_max_ms,
        backoff_jitter_percent, delay_ms, fifo, fifo_run, paused, pause_reason, on_exhausted,
        dead_letter, ttl_ms, max_messages, queue_max_concurrency, dedup_mode,
        dedup_window_ms, dedup_scope, history_ms, history_failed_ms, history_payload, events,
        queue_rate_count, queue_rate_period_ms, queue_rate_burst, queue_rate_interval_us,
        max_concurrency, rate_count, rate_period_ms,
        rate_burst, rate_interval_us, max_size, weight, labels, created_at, modified_at
    ) values (
        insert_queue.name, s.lease_ms, s.max_attempts, s.max_deliveries, s.backoff_ms,
        s.backoff_max_ms, s.backoff_jitter_percent, s.delay_ms, s.fifo, s.fifo_run, s.paused,
        s.pause_reason,
        s.on_exhausted, s.dead_letter, s.ttl_ms, s.max_messages, s.queue_max_concurrency,
        s.dedup_mode, s.dedup_window_ms, s.dedup_scope, s.history_ms, s.history_failed_ms,
        s.history_payload, s.events,
        s.queue_rate_count, s.queue_rate_period_ms, s.queue_rate_burst, s.queue_rate_interval_us,
        s.max_concurrency, s.rate_count, s.rate_period_ms, s.rate_burst, s.rate_interval_us,
        s.max_size, s.weight, s.labels, insert_queue.now_ms, insert_queue.now_ms
    ) on conflict do nothing returning * into v_row;
    return v_row;
end $$;
