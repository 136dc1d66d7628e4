-- Namespaces and tokens, for servers. What they mean: docs/design/server.md.

-- The part before the slash of a stored name, '' without one. An expression of its own, so that a
-- namespace's rows are found without a look at all others, those without a namespace as well.
create index queue_namespace on turnabout.queue (
    (left(name, greatest(position('/' in name), 1) - 1)), name
);
create index schedule_namespace on turnabout.schedule (
    (left(name, greatest(position('/' in name), 1) - 1)), name
);
create index redrive_namespace on turnabout.redrive (
    (left(queue, greatest(position('/' in queue), 1) - 1)), id
);

-- Tenants and their quotas; null: not limited. The row '' is of queues without a namespace.
create table turnabout.namespace (
    name text collate "C" primary key, max_messages bigint, max_bytes bigint,
    requests_per_second int, max_queues int, max_policies int, max_schedules int,
    max_history_bytes bigint, max_polls int, weight int, created_at bigint not null
);

-- Tokens; of the secret only its SHA-256. scopes: a JSON list of texts.
create table turnabout.token (
    id text collate "C" primary key,
    digest bytea not null check (octet_length(digest) = 32),
    namespace text collate "C" not null, label text not null, scopes text not null,
    created_at bigint not null, expires_at bigint, revoked_at bigint
);

create index token_namespace on turnabout.token (namespace, created_at, id);
