-- Namespace holdings: what a namespace keeps beside its messages.

-- name: policies
-- Channels with a policy of their own.
select count(*) from turnabout_channel
where queue_id in (
    select id from turnabout_queue where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace
  )
  and (paused = 1 or max_concurrency is not null or rate_count is not null
       or max_size is not null or weight is not null or pause_reason is not null);

-- name: schedules
-- Schedules, and the bytes of their payloads.
select count(*), ifnull(sum(length(payload)), 0) from turnabout_schedule
where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace;

-- name: history
-- Bytes that history keeps.
select ifnull(sum(ifnull(length(payload), 0) + ifnull(length(result), 0)
                  + ifnull(length(error), 0)), 0)
from turnabout_history
where queue_id in (
  select id from turnabout_queue where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace
);
