-- Refuse a dead-letter queue whose own dead messages would come back to the queue they died in.
create or replace function turnabout.check_grave(queue text, grave text) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    v_seen text := grave;
begin
    while v_seen is not null loop
        if v_seen = queue then
            raise exception '''%'' cannot be the dead-letter queue', grave
                using errcode = 'PQ409', hint = 'its own dead messages would come back here';
        end if;
        select q.dead_letter into v_seen from turnabout.queue q where q.name = v_seen;
    end loop;
end
$$;
