-- Token create: a token, and its namespace.

-- name: namespace
-- Made if it is missing.
insert into turnabout_namespace (name, created_at) values (:namespace, :now) on conflict do nothing;

-- name: add
-- A token; the same one again changes nothing.
insert into turnabout_token (id, digest, namespace, label, scopes, created_at, expires_at)
values (:id, :digest, :namespace, :label, :scopes, :now, :now + :lifetime_ms)
on conflict (id) do nothing;
