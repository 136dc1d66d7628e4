-- Fold the news of a queue into its channel rows: make missing rows, apply changes of policy, wake
-- the rows, and wake those whose time has come. A bounded share.
--
-- Waits for nobody: rows that others hold keep their news for the next call, and a row is only made
-- by whoever gets its advisory lock, so no two transactions meet in the unique index.
create or replace function penstock.wake_channels(queue_id int, now_ms bigint) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    v_names text[];
    v_changed text[];
begin
    -- 1. Channels with news; rows for those that have none.
    select array_agg(distinct n.channel order by n.channel) into v_names
    from (
        select w.channel from penstock.wake w
        where w.queue_id = wake_channels.queue_id
        order by w.id
        limit 500
    ) n;
    if v_names is not null then
        insert into penstock.channel (queue_id, name)
        select wake_channels.queue_id, missing.name
        from (
            select n.name from unnest(v_names) n (name)
            where not exists (
                select from penstock.channel c
                where c.queue_id = wake_channels.queue_id and c.name = n.name
            )
            offset 0
        ) missing
        where pg_try_advisory_xact_lock(
            hashtextextended('penstock.channel ' || wake_channels.queue_id || ' ' || missing.name, 0)
        )
        on conflict do nothing;

        -- 2. Lock the rows that nobody holds.
        select array_agg(held.name) into v_names
        from (
            select c.name from penstock.channel c
            where c.queue_id = wake_channels.queue_id and c.name = any (v_names)
            for update skip locked
        ) held;

        -- 3. Take their news, apply the last change of policy, and wake them.
        with news as (
            delete from penstock.wake w
            where w.queue_id = wake_channels.queue_id and w.channel = any (v_names)
            returning w.channel, w.id, w.policy
        ),
        latest as (
            select distinct on (n.channel) n.channel,
                (jsonb_populate_record(null::penstock.channel, n.policy)).*,
                jsonb_strip_nulls(n.policy - 'paused') <> '{}'
                or coalesce((n.policy ->> 'paused')::boolean, false) as has_own
            from news n
            where n.policy is not null
            order by n.channel, n.id desc
        ),
        changed as (
            update penstock.channel c
            set max_concurrency = l.max_concurrency, rate_count = l.rate_count,
                rate_period_ms = l.rate_period_ms, rate_burst = l.rate_burst,
                rate_interval_us = l.rate_interval_us, max_size = l.max_size, weight = l.weight,
                paused = coalesce(l.paused, false), own = l.has_own, awake = true, wake_at = null
            from latest l
            where c.queue_id = wake_channels.queue_id and c.name = l.channel
            returning c.name
        )
        select array_agg(c.name) into v_changed from changed c;

        update penstock.channel c
        set awake = true, wake_at = null
        where c.queue_id = wake_channels.queue_id and c.name = any (v_names) and not c.awake;

        -- 4. Live leases and delayed messages from before a first policy count from now on.
        if v_changed is not null then
            update penstock.message m
            set limited = true
            where m.id = any (array(
                select r.id from penstock.message r
                where r.queue_id = wake_channels.queue_id and r.status > 0 and not r.limited
                    and r.channel = any (v_changed)
                for update skip locked
            ));
        end if;
    end if;

    -- 5. Rows whose time has come.
    update penstock.channel c
    set awake = true, wake_at = null
    where c.queue_id = wake_channels.queue_id and c.name = any (array(
        select s.name from penstock.channel s
        where s.queue_id = wake_channels.queue_id and s.wake_at <= now_ms
        order by s.wake_at
        limit 500
        for update skip locked
    ));
end
$$;
