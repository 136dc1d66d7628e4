-- Change some columns of a channel's policy, or with `replace` all of them. The change is a wake of
-- the channel, folded in at once unless the row is locked; then by the next receive. The type of a
-- policy bounds the values. `pause_ms`: pause for that time; an existing longer pause stays.
create or replace function turnabout.policy_set(
    queue text, channel turnabout.channel_name, changes jsonb, replace boolean default false,
    pause_ms turnabout.delay default null, now_ms turnabout.instant default null
) returns jsonb language plpgsql as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(policy_set.queue, false);
    v_policy jsonb := changes;
    v_now bigint := coalesce(now_ms, turnabout.clock_ms());
begin
    if not policy_set.replace then
        v_policy := coalesce(turnabout.policy_of(v_queue.id, policy_set.channel), '{}') || changes;
    end if;
    if pause_ms is not null then
        v_policy := v_policy || jsonb_build_object('paused_until', greatest(
            (v_policy ->> 'paused_until')::bigint, v_now + pause_ms));
    end if;
    v_policy := to_jsonb(jsonb_populate_record(null::turnabout.policy, v_policy));
    insert into turnabout.wake (queue_id, channel, policy)
    values (v_queue.id, policy_set.channel, v_policy);
    perform turnabout.wake_channels(v_queue.id, v_now);
    return v_policy;
end $$;
