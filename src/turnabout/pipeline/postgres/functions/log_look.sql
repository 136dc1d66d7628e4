-- Where the log ends, its floor, and for how long the oldest running transaction has been open, as
-- rows of the log that come after it are held back. Of other roles' transactions it may be that
-- only what they hold back can be seen: then since when that has been waiting.
create or replace function turnabout_pipeline.log_look(
    now_ms turnabout.instant default null, out end_xid xid8, out end_id bigint,
    out floor_xid xid8, out floor_id bigint, out waiting_ms bigint
) language plpgsql stable as $$  -- plans: pinned
declare
    v_oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
    v_since timestamptz;
begin
    select e.xid, e.id into end_xid, end_id from turnabout_pipeline.log_end() e;
    select f.xid, f.id into floor_xid, floor_id from turnabout_pipeline.log_floor() f;
    if v_oldest = pg_snapshot_xmax(pg_current_snapshot()) then return; end if;
    select coalesce(
        (select min(a.xact_start) from pg_stat_activity a
        where a.backend_xid = xid(v_oldest)),
        (select min(p.prepared) from pg_prepared_xacts p where p.transaction = xid(v_oldest)))
    into v_since;
    if v_since is not null then
        waiting_ms := floor(extract(epoch from clock_timestamp() - v_since) * 1000);
    else
        select coalesce(log_look.now_ms, turnabout.clock_ms()) - h.finished_at into waiting_ms
        from turnabout.history h where h.xid > v_oldest order by h.xid, h.id limit 1;
    end if;
    waiting_ms := greatest(waiting_ms, 0);
end $$;
