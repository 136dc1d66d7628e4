-- Schedules by name, of one queue, name or namespace if given, behind the name `after`; with `due`,
-- those that are due and not paused, of all namespaces in turn, by due time. A statement for each,
-- as every process asks for the due ones each second, which have an index.
create or replace function turnabout.schedule_list(
    queue text default null, due boolean default false, schedule text default null,
    now_ms turnabout.instant default null, namespace text default null,
    after text default null, most int default null
) returns setof turnabout.schedule language plpgsql stable as $$  -- plans: free
declare
    v_now bigint := coalesce(now_ms, turnabout.clock_ms());
begin
    if due then
        return query
        select s.* from (
            select d.name, row_number() over (
                partition by left(d.name, greatest(position('/' in d.name), 1) - 1)
                order by d.next_at, d.name
            ) as round
            from turnabout.schedule d
            where d.next_at <= v_now and not d.paused
                and (schedule_list.queue is null or d.queue = schedule_list.queue)
                and (schedule_list.schedule is null or d.name = schedule_list.schedule)
                and (
                    schedule_list.namespace is null
                    or left(d.name, greatest(position('/' in d.name), 1) - 1)
                        = schedule_list.namespace
                )
        ) t
        join turnabout.schedule s on s.name = t.name order by t.round, s.next_at, s.name
        limit schedule_list.most;
    elsif schedule_list.namespace is not null then
        return query
        select s.* from turnabout.schedule s
        where left(s.name, greatest(position('/' in s.name), 1) - 1) = schedule_list.namespace
            and (schedule_list.queue is null or s.queue = schedule_list.queue)
            and (schedule_list.schedule is null or s.name = schedule_list.schedule)
            and (schedule_list.after is null or s.name > schedule_list.after)
        order by s.name limit schedule_list.most;
    elsif schedule_list.schedule is not null then
        return query
        select s.* from turnabout.schedule s
        where s.name = schedule_list.schedule
            and (schedule_list.queue is null or s.queue = schedule_list.queue);
    else
        return query
        select s.* from turnabout.schedule s
        where (schedule_list.queue is null or s.queue = schedule_list.queue)
            and (schedule_list.after is null or s.name > schedule_list.after)
        order by s.name limit schedule_list.most;
    end if;
end $$;
