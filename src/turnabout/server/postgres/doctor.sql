-- Doctor: what must not be, of namespaces and tokens.

-- name: namespaces
-- Queues of a namespace that is gone.
select count(*) from turnabout.queue q
where left(q.name, greatest(position('/' in q.name), 1) - 1) <> ''
and not exists (
    select 1 from turnabout.namespace n
    where n.name = left(q.name, greatest(position('/' in q.name), 1) - 1)
);

-- name: tenants
-- Dead-letter queues and schedules that lead to another namespace.
select (
    select count(*) from turnabout.queue q
    join turnabout.queue o on o.name = q.dead_letter
    where left(q.name, greatest(position('/' in q.name), 1) - 1) <> left(o.name,
        greatest(position('/' in o.name), 1) - 1)
) + (
    select count(*) from turnabout.queue q
    join turnabout.schedule o on o.queue = q.name
    where left(q.name, greatest(position('/' in q.name), 1) - 1) <> left(o.name,
        greatest(position('/' in o.name), 1) - 1)
);

-- name: tokens
-- Tokens that end within a week.
select count(*) from turnabout.token t
where t.revoked_at is null and t.expires_at > %(now)s and t.expires_at < %(now)s + 604800000;
