-- Namespace delete: with its tokens, and what is noted of its redrives.

-- name: left
-- A queue or a schedule that is still there.
select * from (
  select 'queue ' || quote(name) from turnabout_queue
  where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace limit 1
)
union all
select * from (
  select 'schedule ' || quote(name) from turnabout_schedule
  where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace limit 1
);

-- name: redrives
-- The next namespace of that name sees nothing of this one.
delete from turnabout_redrive where substr(queue, 1, max(instr(queue, '/'), 1) - 1) = :namespace;

-- name: tokens
-- Its tokens.
delete from turnabout_token where namespace = :namespace;

-- name: delete
-- The namespace.
delete from turnabout_namespace where name = :namespace;
