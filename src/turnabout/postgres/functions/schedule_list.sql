-- Schedules by name, of one queue, name or namespace if given; with `due`, those that are due and
-- not paused. A statement for each, as every process asks for the due ones each second, which have
-- an index.
-- plans: free
create or replace function turnabout.schedule_list(
    queue text default null, due boolean default false, schedule text default null,
    now_ms turnabout.instant default null, namespace text default null
) returns setof turnabout.schedule
language plpgsql stable as $$
declare
    v_now bigint := coalesce(now_ms, turnabout.clock_ms());
begin
    if due then
        return query
        select s.* from turnabout.schedule s
        where s.next_at <= v_now
            and not s.paused
            and (schedule_list.queue is null or s.queue = schedule_list.queue)
            and (schedule_list.schedule is null or s.name = schedule_list.schedule)
            and (
                schedule_list.namespace is null
                or left(s.name, greatest(position('/' in s.name), 1) - 1) = schedule_list.namespace
            )
        order by s.name;
    elsif schedule_list.namespace is not null then
        return query
        select s.* from turnabout.schedule s
        where left(s.name, greatest(position('/' in s.name), 1) - 1) = schedule_list.namespace
            and (schedule_list.queue is null or s.queue = schedule_list.queue)
            and (schedule_list.schedule is null or s.name = schedule_list.schedule)
        order by s.name;
    elsif schedule_list.schedule is not null then
        return query
        select s.* from turnabout.schedule s
        where s.name = schedule_list.schedule
            and (schedule_list.queue is null or s.queue = schedule_list.queue);
    else
        return query
        select s.* from turnabout.schedule s
        where schedule_list.queue is null or s.queue = schedule_list.queue
        order by s.name;
    end if;
end
$$;
