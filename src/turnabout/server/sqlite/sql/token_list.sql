-- Token list: the newest first.

-- name: all
-- Of all namespaces.
select * from turnabout_token order by created_at desc, id desc;

-- name: of_namespace
-- Of one namespace.
select * from turnabout_token where namespace = :namespace order by created_at desc, id desc;
