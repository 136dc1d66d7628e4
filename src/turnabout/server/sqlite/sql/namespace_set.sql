-- Namespace set: a namespace and its quotas.

-- name: set
-- Made, or its quotas set anew.
insert into turnabout_namespace (name, max_messages, max_bytes, requests_per_second, created_at)
values (:name, :max_messages, :max_bytes, :requests_per_second, :now)
on conflict (name) do update
set max_messages = excluded.max_messages, max_bytes = excluded.max_bytes,
  requests_per_second = excluded.requests_per_second;

-- name: find
-- The namespace.
select name, max_messages, max_bytes, requests_per_second, created_at
from turnabout_namespace where name = :name;
