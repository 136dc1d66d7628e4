-- The partition of history for one day, unless the default partition has rows of it: made apart and
-- then attached, which keeps nobody from writing history.
create or replace function turnabout.make_day(from_ms bigint) returns void language plpgsql as $$
declare
    v_name text := turnabout.day_name(from_ms);
begin
    if exists (
        select from turnabout.history_default h
        where h.finished_at >= from_ms and h.finished_at < from_ms + 86400000
    ) then
        return;
    end if;
    execute format(
        'create table %s (like turnabout.history including defaults) with ('
        'autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)', v_name);
    execute format('alter table %s replica identity full', v_name);
    execute format(
        'alter table turnabout.history attach partition %s for values from (%s) to (%s)',
        v_name, from_ms, from_ms + 86400000);
end $$;
