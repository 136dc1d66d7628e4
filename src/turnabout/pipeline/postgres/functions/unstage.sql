-- Remove what attempts have staged, and what anybody has staged more than a day ago.
-- plans: free
create or replace function turnabout_pipeline.unstage(
    attempts text[], now_ms turnabout.instant default null
) returns bigint
language plpgsql as $$
declare
    v_before bigint := coalesce(unstage.now_ms, turnabout.clock_ms()) - 86400000;
    v_count bigint;
    v_old bigint;
begin
    delete from turnabout.stage s where s.attempt = any (unstage.attempts);
    get diagnostics v_count = row_count;
    delete from turnabout.stage s where s.staged_at < v_before;
    get diagnostics v_old = row_count;
    return v_count + v_old;
end
$$;
