-- Namespace delete: with its tokens, and what is noted of its redrives.

-- name: left
-- A queue or a schedule that is still there.
select * from (
  select 'queue ' || quote(name) from queue
  where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace
  limit 1
)
union all
select * from (
  select 'schedule ' || quote(name) from schedule
  where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace
  limit 1
);

-- name: redrives
-- Whoever gets that name next sees nothing of this one.
delete from redrive where substr(queue, 1, max(instr(queue, '/'), 1) - 1) = :namespace;

-- name: tokens
-- Its tokens.
delete from token where namespace = :namespace;

-- name: delete
-- The namespace.
delete from namespace where name = :namespace;
