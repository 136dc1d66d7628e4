-- A channel's own policy as columns; null if it has none.
create or replace function turnabout.policy_get(
    queue text, channel turnabout.channel_name
) returns jsonb language plpgsql stable as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(policy_get.queue, false);
begin
    return turnabout.policy_of(v_queue.id, policy_get.channel);
end $$;
