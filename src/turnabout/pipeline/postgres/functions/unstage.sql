-- Remove what attempts have staged, and what anybody has staged more than a day ago.
create or replace function turnabout_pipeline.unstage(
    attempts text[], now_ms turnabout.instant default null
) returns bigint language plpgsql as $$  -- plans: free
declare
    v_before bigint := coalesce(unstage.now_ms, turnabout.clock_ms()) - 86400000;
    v_messages bigint;
begin
    with gone as (
        delete from turnabout.stage s where s.attempt = any (unstage.attempts) returning s.messages
    ),
    old as (
        delete from turnabout.stage s
        where s.staged_at < v_before and s.attempt <> all (unstage.attempts) returning s.messages
    )
    select coalesce(sum(u.messages), 0) into v_messages
    from (select * from gone union all select * from old) u;
    return v_messages;
end $$;
