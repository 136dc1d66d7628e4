-- Channels with a policy of their own, by name behind `after`, each with its columns.
create or replace function turnabout.policy_list(
    queue text, after text default null, most int default null
) returns table (channel text, policy jsonb) language plpgsql stable as $$  -- plans: free
declare
    v_queue turnabout.queue := turnabout.find_queue(policy_list.queue, false);
begin
    return query
    select n.name::text, turnabout.policy_of(v_queue.id, n.name) from (
        select c.name from turnabout.channel c where c.queue_id = v_queue.id and c.own
        union
        select w.channel from turnabout.wake w
        where w.queue_id = v_queue.id and w.policy is not null
    ) n
    where policy_list.after is null or n.name > policy_list.after order by n.name
    limit policy_list.most;
end $$;
