-- Namespace list: by name.

-- name: all
-- All; '' only if it has quotas or tokens.
select name, max_messages, max_bytes, requests_per_second, max_queues, max_policies,
  max_schedules, max_history_bytes, max_polls, weight, created_at
from turnabout_namespace order by name;
