-- All namespaces by name; '' only if it has quotas or tokens.
create or replace function turnabout_server.namespace_list() returns setof turnabout.namespace
language sql stable as $$  -- plans: free
    select n.* from turnabout.namespace n order by n.name
$$;
