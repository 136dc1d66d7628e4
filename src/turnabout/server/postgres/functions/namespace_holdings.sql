-- What a namespace keeps beside its messages; with `history` the bytes in that, too, which reads
-- all rows of it, but nothing that is stored aside.
create or replace function turnabout_server.namespace_holdings(
    namespace text, history boolean default false
) returns table (policies bigint, schedules bigint, schedule_bytes bigint, history_bytes bigint)
language plpgsql stable as $$  -- plans: free
declare
    v_queues int[] := array(
        select q.id from turnabout.queue_list(null, namespace_holdings.namespace) q
    );
begin
    select count(*) into policies from (
        select c.queue_id, c.name from turnabout.channel c
        where c.queue_id = any (v_queues) and c.own
        union
        select w.queue_id, w.channel from turnabout.wake w
        where w.queue_id = any (v_queues) and w.policy is not null
    ) p;
    select count(*), coalesce(sum(octet_length(s.payload)), 0) into schedules, schedule_bytes
    from turnabout.schedule s
    where left(s.name, greatest(position('/' in s.name), 1) - 1) = namespace_holdings.namespace;
    history_bytes := 0;
    if namespace_holdings.history then
        select coalesce(sum(
            coalesce(octet_length(h.payload), 0) + coalesce(octet_length(h.result), 0)
            + coalesce(octet_length(h.error), 0)
        ), 0) into history_bytes
        from turnabout.history h where h.queue_id = any (v_queues);
    end if;
    return next;
end $$;
