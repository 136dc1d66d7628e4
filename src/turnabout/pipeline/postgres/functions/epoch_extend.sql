-- The heartbeat of a subscription's reader: all its leases run for lease_ms from now. `owner`: the
-- caller is not that reader. Else how many run on, and how many are lost.
create or replace function turnabout_pipeline.epoch_extend(
    subscription text, generation bigint, lease_ms bigint, now_ms turnabout.instant default null,
    out owner text, out messages int, out lost int
) language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(epoch_extend.now_ms, turnabout.clock_ms());
    v_row turnabout.subscription := turnabout_pipeline.lock_subscription(
        epoch_extend.subscription, epoch_extend.generation, v_now);
begin
    if v_row.generation is null then
        owner := v_row.owner;
        return;
    end if;
    select r.messages, r.lost into epoch_extend.messages, epoch_extend.lost
    from turnabout_pipeline.epoch_renew(v_row.name, 0, 9223372036854775807, v_now + lease_ms) r;
end $$;
