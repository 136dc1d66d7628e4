-- All namespaces by name; '' only if it has quotas or tokens.
create or replace function penstock.namespace_list() returns setof penstock.namespace
language sql stable as $$
    select n.* from penstock.namespace n order by n.name
$$;
