-- Acknowledge the epochs up to `after`; then the one that follows, or that follows `beyond`: the
-- recorded one, its leases renewed, or a new one.
--
-- `owner`: the caller is not the subscription's reader, and nothing was changed. Else `epoch` and
-- how many messages it has; no messages: there is none, or not before `wait_ms`. `notified`: queues
-- to notify.
create or replace function turnabout_pipeline.epoch_lease(
    subscription text, generation bigint, queues text[], after bigint, max_messages int,
    lease_ms bigint, parts int default 1, by_channel boolean default false,
    beyond bigint default 0, max_bytes bigint default null,
    now_ms turnabout.instant default null, out owner text, out epoch bigint, out messages int,
    out acked int, out lost int, out wait_ms bigint, out notified text[]
) language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(epoch_lease.now_ms, turnabout.clock_ms());
    v_row turnabout.subscription := turnabout_pipeline.lock_subscription(
        epoch_lease.subscription, epoch_lease.generation, v_now);
    v_failed boolean; v_most int;
    v_last bigint := greatest(epoch_lease.after, epoch_lease.beyond);
begin
    if v_row.generation is null then
        owner := v_row.owner;
        return;
    end if;
    perform turnabout.find_queue(q.name) from unnest(epoch_lease.queues) q (name);

    -- 1. What Spark has noted as done.
    select e.acked, e.lost, e.failed, e.notified
    into epoch_lease.acked, epoch_lease.lost, v_failed, epoch_lease.notified
    from turnabout_pipeline.epoch_end(v_row.name, epoch_lease.after, v_now) e;
    v_most := v_row.max_messages;
    if acked > 0 then
        v_most := nullif(least(v_most * 2, 1000000), 1000000);  -- none is larger
        if v_failed then  -- for a while: what fails now may be no worse
            v_row.proven := v_row.passed;
        else
            v_row.passed := v_row.passed + 1; v_row.failures := v_row.failures / 2;
        end if;
        v_row.resume_at := 0;
    end if;
    update turnabout.subscription s
    set acked = greatest(s.acked, epoch_lease.after), max_messages = v_most,
        failures = v_row.failures, passed = v_row.passed, proven = v_row.proven,
        resume_at = v_row.resume_at,
        epoch = greatest(s.epoch, epoch_lease.after)  -- a checkpoint may be ahead
    where s.name = v_row.name and (s.acked < epoch_lease.after or epoch_lease.acked > 0);

    wait_ms := 0;
    -- 2. The one that is recorded: its driver died before it noted it.
    select e.epoch into epoch_lease.epoch from turnabout.epoch e
    where e.subscription = v_row.name and e.epoch > v_last order by e.epoch limit 1;
    if found then
        -- Those that were lost count, or an epoch of which none is left would never end.
        select x.messages + x.lost into epoch_lease.messages from turnabout_pipeline.epoch_renew(
            v_row.name, epoch_lease.epoch, epoch_lease.epoch, v_now + lease_ms) x;
        return;
    end if;

    -- 3. A new one.
    epoch := v_last; messages := 0;
    if epoch_lease.max_messages > 0 then wait_ms := greatest(v_row.resume_at - v_now, 0); end if;
    if epoch_lease.max_messages > 0 and wait_ms = 0 then
        messages := turnabout_pipeline.epoch_take(
            v_row.name, greatest(v_row.epoch, v_last) + 1, epoch_lease.queues,
            v_row.turn, least(epoch_lease.max_messages, v_most), lease_ms, epoch_lease.parts,
            by_channel, max_bytes, v_now);
        -- As large as asked for: nothing keeps epochs small any more.
        if v_most >= epoch_lease.max_messages then
            update turnabout.subscription s set max_messages = null where s.name = v_row.name;
        end if;
    end if;
    if messages > 0 then
        epoch := greatest(v_row.epoch, v_last) + 1;
        update turnabout.subscription s
        set epoch = epoch_lease.epoch, turn = s.turn + 1, queues = epoch_lease.queues
        where s.name = v_row.name;
    end if;
end $$;
