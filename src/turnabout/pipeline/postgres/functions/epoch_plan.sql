-- The parts of a recorded epoch, its leases renewed. After `max_plans` plans it is cut to its first
-- tenth, and the rest goes back; a message that is alone is judged: see `epoch_judge`.
--
-- `owner`: the caller is not the subscription's reader. Without `plans` there is no such epoch, and
-- `acked` and `newest` tell which there are. `notified`: queues to notify.
create or replace function turnabout_pipeline.epoch_plan(
    subscription text, generation bigint, epoch bigint, lease_ms bigint, max_plans int, error text,
    now_ms turnabout.instant default null, out owner text, out acked bigint, out newest bigint,
    out plans int, out returned int, out dead int, out suspect bigint, out failures int,
    out wait_ms bigint, out parts int[], out queues text[], out messages int[], out notified text[]
) language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(epoch_plan.now_ms, turnabout.clock_ms());
    v_row turnabout.subscription := turnabout_pipeline.lock_subscription(
        epoch_plan.subscription, epoch_plan.generation, v_now);
    v_messages bigint; v_until bigint;
begin
    if v_row.generation is null then
        owner := v_row.owner;
        return;
    end if;
    update turnabout.epoch e set plans = e.plans + 1
    where e.subscription = v_row.name and e.epoch = epoch_plan.epoch
    returning e.plans, e.until into epoch_plan.plans, v_until;
    if not found then
        acked := v_row.acked; newest := v_row.epoch;
        return;
    end if;

    returned := 0; dead := 0; failures := 0; wait_ms := 0; notified := '{}';
    if plans > max_plans then
        select sum(cardinality(p.ids)) into v_messages from turnabout.epoch_part p
        where p.subscription = v_row.name and p.epoch = epoch_plan.epoch;
        if v_messages = 1 then
            select j.dead, j.suspect, j.failures, j.wait_ms, j.notified
            into epoch_plan.dead, epoch_plan.suspect, epoch_plan.failures, epoch_plan.wait_ms,
                epoch_plan.notified
            from turnabout_pipeline.epoch_judge(v_row, epoch_plan.epoch, error, v_now) j;
        elsif v_messages > 1 then
            v_messages := greatest(v_messages / 10, 1);
            select r.returned, r.notified into epoch_plan.returned, epoch_plan.notified
            from turnabout_pipeline.epoch_return(
                v_row.name, epoch_plan.epoch, v_messages, 0, v_now) r;
            -- Alone it is tried as often as all of them were: a driver may have been killed.
            update turnabout.epoch e set plans = 1
            where v_messages = 1 and e.subscription = v_row.name and e.epoch = epoch_plan.epoch;
        end if;
        -- An epoch that is empty by now does not make the next ones small.
        update turnabout.subscription s set max_messages = greatest(v_messages, 1)
        where s.name = v_row.name and v_messages is not null;
    end if;
    -- What was renewed a moment ago, as it is when all goes well, has time enough.
    if v_until < v_now + lease_ms - lease_ms / 10 then
        perform turnabout_pipeline.epoch_renew(
            v_row.name, epoch_plan.epoch, epoch_plan.epoch, v_now + lease_ms);
    end if;
    select array_agg(p.part order by p.part), array_agg(p.queue::text order by p.part),
        array_agg(cardinality(p.ids) order by p.part)
    into epoch_plan.parts, epoch_plan.queues, epoch_plan.messages
    from turnabout.epoch_part p where p.subscription = v_row.name and p.epoch = epoch_plan.epoch;
end $$;
