-- The token of that id, live or not, with its namespace's quotas; no row if there never was one.
create or replace function penstock.token_find(id text)
returns table (token penstock.token, quotas penstock.namespace)
language sql stable as $$
    select t, n
    from penstock.token t
    left join penstock.namespace n on n.name = t.namespace
    where t.id = token_find.id
$$;
