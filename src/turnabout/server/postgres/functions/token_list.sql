-- Tokens of all namespaces or of one, the newest first.
create or replace function turnabout_server.token_list(namespace text default null)
returns setof turnabout.token language sql stable as $$  -- plans: free
    select t.* from turnabout.token t
    where token_list.namespace is null or t.namespace = token_list.namespace
    order by t.created_at desc, t.id desc
$$;
