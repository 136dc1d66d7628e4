-- Token find: by its id, live or not.

-- name: find
-- The token, and the quotas of its namespace.
select token.id, token.digest, token.namespace, token.label, token.scopes, token.created_at,
  token.expires_at, token.revoked_at,
  namespace.max_messages, namespace.max_bytes, namespace.requests_per_second,
  namespace.max_queues, namespace.max_policies, namespace.max_schedules,
  namespace.max_history_bytes, namespace.max_polls, namespace.weight, namespace.created_at as since
from turnabout_token as token
left join turnabout_namespace as namespace on namespace.name = token.namespace where token.id = :id;
