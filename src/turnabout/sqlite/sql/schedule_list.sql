-- Schedule list: by name.

-- name: all, of_namespace
-- All, or those of a namespace; of these, those of one queue or name.
select * from turnabout_schedule
where (:queue is null or queue = :queue) and name > ifnull(:after, '')
  and name between coalesce(:name, '') and coalesce(:name, '~')  -- only: all
  and substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace  -- only: of_namespace
  and (:name is null or name = :name)  -- only: of_namespace
order by name limit ifnull(:most, -1);

-- name: due
-- Those that are due and not paused, of all namespaces in turn, by due time.
select schedule.* from (
  select name, row_number() over (
    partition by substr(name, 1, max(instr(name, '/'), 1) - 1) order by next_at, name
  ) as round
  from turnabout_schedule indexed by turnabout_schedule_due
  where next_at <= :now and paused = 0 and (:queue is null or queue = :queue)
    and (:name is null or name = :name)
    and (:namespace is null or substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace)
) as turn
cross join turnabout_schedule as schedule on schedule.name = turn.name
order by turn.round, schedule.next_at, schedule.name limit ifnull(:most, -1);
