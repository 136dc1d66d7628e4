-- The policy of a channel as columns, including changes not yet folded into its row; each holds the
-- whole policy, so the last one counts. Null: it has none.
create or replace function turnabout.policy_of(queue_id int, channel text) returns jsonb
language plpgsql stable as $$
declare
    v_policy jsonb;
begin
    select w.policy into v_policy from turnabout.wake w
    where w.queue_id = policy_of.queue_id and w.channel = policy_of.channel and w.policy is not null
    order by w.id desc limit 1;
    if not found then
        select jsonb_build_object(
            'max_concurrency', c.max_concurrency, 'rate_count', c.rate_count,
            'rate_period_ms', c.rate_period_ms, 'rate_burst', c.rate_burst,
            'rate_interval_us', c.rate_interval_us, 'max_size', c.max_size, 'weight', c.weight,
            'paused', c.paused, 'paused_until', c.paused_until, 'pause_reason', c.pause_reason)
        into v_policy
        from turnabout.channel c
        where c.queue_id = policy_of.queue_id and c.name = policy_of.channel and c.own;
    end if;
    return v_policy;
end $$;
