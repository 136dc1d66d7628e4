-- Those of these queues that are worth a look: something is ready, or will be within `within_ms`,
-- or maintenance has work. For a process whose receivers wait: one call for all queues finds
-- messages that came without a notification.
create or replace function turnabout.queues_to_look(queues text[], within_ms int)
returns setof text language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue;
    v_now bigint := turnabout.clock_ms();
begin
    for v_queue in
        select q.* from turnabout.queue q where q.name = any (queues_to_look.queues collate "C")
    loop
        if exists (
            select from turnabout.nothing_ready(v_queue, v_now) n where n.at <= within_ms
        ) or exists (
            select from turnabout.ready r where r.queue_id = v_queue.id and r.expires_at <= v_now
        ) or exists (
            select from turnabout.scheduled s
            where s.queue_id = v_queue.id and s.expires_at <= v_now
        ) or exists (
            select from turnabout.redrive r
            where r.queue_id = v_queue.id and r.state = 'running'
                and (r.next_at is null or r.next_at <= v_now)
        ) then
            return next v_queue.name;
        end if;
    end loop;
end $$;
