-- End a token; one that was revoked stays as it is. No row: there is none of that id.
create or replace function turnabout_server.token_revoke(
    id text, now_ms turnabout.instant default null
) returns setof turnabout.token language sql as $$  -- plans: free
    update turnabout.token t
    set revoked_at = coalesce(t.revoked_at, token_revoke.now_ms, turnabout.clock_ms())
    where t.id = token_revoke.id returning t.*
$$;
