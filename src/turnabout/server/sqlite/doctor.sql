-- Doctor: what must not be, of namespaces and tokens.

-- name: namespaces
-- Queues of a namespace that is not there.
select count(*) from turnabout_queue as queue
where instr(name, '/') > 0 and not exists (
  select 1 from turnabout_namespace where name = substr(queue.name, 1, instr(queue.name, '/') - 1)
);

-- name: tenants
-- Dead letters and schedules that lead from one namespace to another.
select (
    select count(*) from turnabout_queue as queue
    join turnabout_queue as other on other.name = queue.dead_letter
    where substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1)
      <> substr(other.name, 1, max(instr(other.name, '/'), 1) - 1)
  ) + (
    select count(*) from turnabout_queue as queue
    join turnabout_schedule as other on other.queue = queue.name
    where substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1)
      <> substr(other.name, 1, max(instr(other.name, '/'), 1) - 1)
  );

-- name: tokens
-- Tokens that end within a week.
select count(*) from turnabout_token
where revoked_at is null and expires_at > :now and expires_at < :now + 604800000;
