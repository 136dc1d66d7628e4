-- After a visit: pay for what was taken from limited channels, and decide whether each row stays
-- awake. `taken` names a channel once for each message taken. The rows are locked by the caller.
create or replace function turnabout.settle_channels(
    queue turnabout.queue, channels text[], taken text[], now_ms bigint
) returns void language plpgsql as $$
declare
    v_row record; v_tat bigint; v_depth bigint; v_rate_at bigint; v_sleep boolean; v_until bigint;
begin
    for v_row in
        select c.name, c.paused, c.paused_until, c.own, c.awake, c.rate_tat_us, c.rate_depth_us,
            case when c.rate_count is null then queue.rate_interval_us else c.rate_interval_us end
                as interval_us,
            case when c.rate_count is null then queue.rate_burst else c.rate_burst end as burst,
            coalesce(t.taken, 0) as taken,
            turnabout.free_slots(queue, c.name, c.max_concurrency) as slots, head.at as head_at
        from unnest(channels) n (name)
        cross join lateral (
            select r.* from turnabout.channel r where r.queue_id = queue.id and r.name = n.name
            offset 0
        ) c
        left join (
            select u.name, count(*)::int as taken from unnest(taken) u (name) group by u.name
        ) t on t.name = c.name
        left join lateral (
            select coalesce(r.at, 0) as at from turnabout.ready r
            where r.queue_id = queue.id and r.limited and r.channel = c.name
                and (r.expires_at is null or r.expires_at > now_ms)
            order by r.priority, r.id limit 1
        ) head on true
    loop
        -- 1. The bucket. If the rate changed, debt from the slower rate is capped at one full
        --    bucket. (Doing so on every visit would erase debt recorded by a receiver with a newer
        --    clock reading.)
        v_tat := v_row.rate_tat_us; v_depth := v_row.rate_depth_us; v_rate_at := null;
        if v_row.interval_us is not null then
            v_depth := v_row.burst * v_row.interval_us;
            if v_depth <> v_row.rate_depth_us then
                v_tat := least(v_tat, now_ms * 1000 + v_depth);
            end if;
            if v_row.taken > 0 then
                v_tat := greatest(v_tat, now_ms * 1000) + v_row.taken * v_row.interval_us;
            end if;
            v_rate_at := (v_tat - (v_row.burst - 1) * v_row.interval_us + 999) / 1000;
        end if;

        -- 2. A pause that is over is forgotten.
        if v_row.paused_until <= now_ms then
            update turnabout.channel c set paused_until = null,
                pause_reason = case when c.paused then c.pause_reason end,
                own = c.paused or num_nonnulls(
                    c.max_concurrency, c.rate_count, c.max_size, c.weight) > 0
            where c.queue_id = queue.id and c.name = v_row.name returning c.own into v_row.own;
        end if;

        -- 3. Sleep until a wake (null) or a point in time, stay awake, or be forgotten.
        v_sleep := true; v_until := null;
        if v_row.paused or v_row.slots <= 0 then
            null;  -- resume, or the end of a lease, wakes it
        elsif v_row.paused_until > now_ms then
            v_until := v_row.paused_until;
        elsif v_row.head_at is null then
            if not v_row.own and v_tat <= now_ms * 1000 then
                delete from turnabout.channel c where c.queue_id = queue.id and c.name = v_row.name;
                continue;
            end if;
            if not v_row.own then
                v_until := (v_tat + 999) / 1000;  -- to be forgotten then
            end if;
        elsif v_row.head_at >= 9000000000000000 then
            null;  -- blocked: a person wakes it
        elsif v_row.head_at > now_ms then
            v_until := v_row.head_at;
        elsif v_rate_at > now_ms then
            v_until := v_rate_at;
        else
            v_sleep := false;
        end if;

        if v_sleep or v_tat <> v_row.rate_tat_us or v_depth <> v_row.rate_depth_us then
            update turnabout.channel c
            set rate_tat_us = v_tat, rate_depth_us = v_depth, awake = not v_sleep, wake_at = v_until
            where c.queue_id = queue.id and c.name = v_row.name;
        end if;
    end loop;
end $$;
