-- Namespaces and tokens, for servers. What they mean: docs/design/server.md.

-- Tenants and their quotas; null: not limited. The row '' is of queues without a namespace.
create table turnabout_namespace (
  name text primary key, max_messages integer, max_bytes integer, requests_per_second integer,
  max_queues integer, max_policies integer, max_schedules integer, max_history_bytes integer,
  max_polls integer, weight integer, created_at integer not null
) strict;

-- Tokens; of the secret only its SHA-256. scopes: a JSON list of texts.
create table turnabout_token (
  id text primary key,
  digest blob not null check (length(digest) = 32),
  namespace text not null, label text not null, scopes text not null, created_at integer not null,
  expires_at integer, revoked_at integer
) strict;

create index turnabout_token_age on turnabout_token (created_at, id);
create index turnabout_token_namespace on turnabout_token (namespace, created_at, id);
