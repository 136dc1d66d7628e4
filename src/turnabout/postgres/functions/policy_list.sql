-- Channels with a policy of their own, by name, each with its columns.
-- plans: free
create or replace function turnabout.policy_list(queue text)
returns table (channel text, policy jsonb)
language plpgsql stable as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(policy_list.queue, false);
begin
    return query
    select n.name::text, turnabout.policy_of(v_queue.id, n.name)
    from (
        select c.name from turnabout.channel c where c.queue_id = v_queue.id and c.own
        union
        select w.channel from turnabout.wake w
        where w.queue_id = v_queue.id and w.policy is not null
    ) n
    order by n.name;
end
$$;
