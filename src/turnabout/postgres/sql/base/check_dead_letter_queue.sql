-- Refuse a dead-letter queue whose own dead messages would come back to the queue they died in.
create or replace function turnabout.check_dead_letter_queue(queue text, target text) returns void
language plpgsql as $$
declare
    v_seen text := target;
begin
    while v_seen is not null loop
        if v_seen = queue then
            raise exception '''%'' cannot be the dead-letter queue', target
                using errcode = 'PQ409', hint = 'its own dead messages would come back here';
        end if;
        select q.dead_letter into v_seen from turnabout.queue q where q.name = v_seen;
    end loop;
end $$;
