-- Fold the wakes of a queue into its channel rows: make missing rows, apply changes of policy, wake
-- the rows, and wake those whose time has come. A bounded share.
--
-- Waits for nobody: rows that others hold keep their wakes for the next call, and a row is only
-- made by the one that gets its advisory lock, so no two transactions meet in the unique index.
--
-- Rows are found name by name (unnest, lateral): `name = any (…)` can be planned as a filter on all
-- of a queue's rows.
create or replace function turnabout.wake_channels(queue_id int, now_ms bigint) returns void
language plpgsql as $$
declare
    v_names text[]; v_last bigint; v_rows tid[]; v_wake record;
    v_changed text[] := '{}';
begin
    -- 1. Channels with wakes; rows for those that have none.
    select array_agg(distinct n.channel order by n.channel), max(n.id) into v_names, v_last from (
        select w.channel, w.id from turnabout.wake w where w.queue_id = wake_channels.queue_id
        order by w.id limit 500
    ) n;
    if v_names is not null then
        insert into turnabout.channel (queue_id, name) select wake_channels.queue_id, missing.name
        from (
            select n.name from unnest(v_names) n (name)
            where (
                select 1 from turnabout.channel c
                where c.queue_id = wake_channels.queue_id and c.name = n.name
            ) is null
            offset 0
        ) missing
        where pg_try_advisory_xact_lock(hashtextextended(
            'turnabout.channel ' || wake_channels.queue_id || ' ' || missing.name, 0))
        on conflict do nothing;

        -- 2. Lock the rows that nobody holds.
        select array_agg(held.name), array_agg(held.ctid) into v_names, v_rows
        from unnest(v_names) n (name)
        cross join lateral (
            select c.name, c.ctid from turnabout.channel c
            where c.queue_id = wake_channels.queue_id and c.name = n.name for update skip locked
        ) held;

        -- 3. Take their wakes, apply changes of policy in their order, and wake them.
        for v_wake in
            with taken as (
                delete from turnabout.wake w
                where w.queue_id = wake_channels.queue_id and w.id <= v_last
                    and w.channel = any (v_names)
                returning w.channel, w.id, w.policy
            )
            select n.channel, n.policy from taken n where n.policy is not null order by n.id
        loop
            perform turnabout.apply_policy(wake_channels.queue_id, v_wake.channel, v_wake.policy);
            v_changed := v_changed || v_wake.channel;
        end loop;
        update turnabout.channel c set awake = true, wake_at = null
        where c.ctid = any (v_rows) and not c.awake;

        -- 4. Live leases and delayed messages from before a first policy count from now on.
        if cardinality(v_changed) > 0 then
            perform turnabout.mark_scheduled_as_limited(wake_channels.queue_id);
            insert into turnabout.recent_change (queue_id, queue)
            select q.id, q.name from turnabout.queue q where q.id = wake_channels.queue_id;
        end if;
    end if;

    -- 5. Rows whose time has come.
    update turnabout.channel c set awake = true, wake_at = null where c.ctid = any (array(
        select s.ctid from turnabout.channel s
        where s.queue_id = wake_channels.queue_id and s.wake_at <= now_ms order by s.wake_at
        limit 500 for update skip locked
    ));
end $$;
