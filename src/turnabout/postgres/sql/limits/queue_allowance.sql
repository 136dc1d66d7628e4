-- How many messages a queue with limits of its own may hand out now; if its rate allows none, also
-- when it allows the next. If the rate changed, debt from the slower rate is capped at one full
-- bucket.
create or replace function turnabout.queue_allowance(
    queue turnabout.queue, now_ms bigint, inout own turnabout.queue_limit, out messages int,
    out opens_at bigint
) language plpgsql stable as $$
declare
    v_depth bigint := queue.queue_rate_burst * queue.queue_rate_interval_us;
    v_tokens int;
begin
    if v_depth <> own.rate_depth_us then
        own.rate_tat_us := least(own.rate_tat_us, now_ms * 1000 + v_depth);
        own.rate_depth_us := v_depth;
    end if;
    v_tokens := turnabout.free_tokens(
        now_ms * 1000, own.rate_tat_us, queue.queue_rate_interval_us, queue.queue_rate_burst);
    messages := greatest(0, least(
        coalesce(
            queue.queue_max_concurrency - own.leased - turnabout.uncounted_leases(queue, null),
            v_tokens),
        v_tokens));
    if v_tokens = 0 then
        opens_at := (
            own.rate_tat_us - (queue.queue_rate_burst - 1) * queue.queue_rate_interval_us + 999
        ) / 1000;
    end if;
end $$;
