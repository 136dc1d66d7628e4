-- Keep a new token, and make its namespace if that is missing. The same one again changes nothing;
-- another one of that id is refused (SQLSTATE PQ409).
create or replace function turnabout_server.token_create(
    id text, digest bytea, namespace text, label text, scopes text,
    lifetime_ms bigint default null, now_ms turnabout.instant default null
) returns turnabout.token language plpgsql as $$  -- plans: free
declare
    v_now bigint := coalesce(token_create.now_ms, turnabout.clock_ms());
    v_row turnabout.token;
begin
    -- Locked, so that nobody deletes it in the same moment.
    insert into turnabout.namespace as n (name, created_at) values (token_create.namespace, v_now)
    on conflict (name) do update set created_at = n.created_at;

    insert into turnabout.token (id, digest, namespace, label, scopes, created_at, expires_at)
    values (
        token_create.id, token_create.digest, token_create.namespace, token_create.label,
        token_create.scopes, v_now, v_now + token_create.lifetime_ms
    ) on conflict (id) do nothing;
    select t.* into v_row from turnabout.token t
    where t.id = token_create.id and t.digest = token_create.digest;
    if not found then
        raise exception 'there is another token with the id %', quote_literal(token_create.id)
            using errcode = 'PQ409', hint = 'make a new one';
    end if;
    return v_row;
end $$;
