-- Schedule list: by name.

-- name: all
-- All, or those of one queue or name.
select * from turnabout_schedule
where name between coalesce(:name, '') and coalesce(:name, '~')
  and (:queue is null or queue = :queue)
order by name;

-- name: due
-- Those that are due and not paused.
select * from turnabout_schedule indexed by turnabout_schedule_due
where next_at <= :now and paused = 0 and (:queue is null or queue = :queue)
  and (:name is null or name = :name)
  and (:namespace is null or substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace);

-- name: of_namespace
-- Those of a namespace, and of one queue or name.
select * from turnabout_schedule
where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace
  and (:queue is null or queue = :queue) and (:name is null or name = :name)
order by name;
