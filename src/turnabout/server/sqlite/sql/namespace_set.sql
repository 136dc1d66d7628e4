-- Namespace set: a namespace and its quotas.

-- name: set
-- Made, or its quotas set anew.
insert into turnabout_namespace (
  name, max_messages, max_bytes, requests_per_second, max_queues, max_policies, max_schedules,
  max_history_bytes, max_polls, weight, created_at
) values (
  :name, :max_messages, :max_bytes, :requests_per_second, :max_queues, :max_policies,
  :max_schedules, :max_history_bytes, :max_polls, :weight, :now
) on conflict (name) do update
set max_messages = excluded.max_messages, max_bytes = excluded.max_bytes,
  requests_per_second = excluded.requests_per_second, max_queues = excluded.max_queues,
  max_policies = excluded.max_policies, max_schedules = excluded.max_schedules,
  max_history_bytes = excluded.max_history_bytes, max_polls = excluded.max_polls,
  weight = excluded.weight;

-- name: find
-- The namespace.
select name, max_messages, max_bytes, requests_per_second, max_queues, max_policies,
  max_schedules, max_history_bytes, max_polls, weight, created_at
from turnabout_namespace where name = :name;
