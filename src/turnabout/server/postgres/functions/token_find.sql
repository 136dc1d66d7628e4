-- The token of that id, live or not, with its namespace's quotas; no row if there never was one.
create or replace function turnabout_server.token_find(id text)
returns table (token turnabout.token, quotas turnabout.namespace)
language sql stable as $$  -- plans: free
    select t, n from turnabout.token t
    left join turnabout.namespace n on n.name = t.namespace where t.id = token_find.id
$$;
