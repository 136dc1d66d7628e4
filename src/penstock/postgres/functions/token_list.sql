-- Tokens of all namespaces or of one, the newest first.
create or replace function penstock.token_list(namespace text default null)
returns setof penstock.token
language sql stable as $$
    select t.* from penstock.token t
    where token_list.namespace is null or t.namespace = token_list.namespace
    order by t.created_at desc, t.id desc
$$;
