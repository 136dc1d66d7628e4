-- All archives by name, with what of the log is behind them: up to a million rows, and since when
-- the first one has waited.
create or replace function turnabout_pipeline.watermark_list(
    now_ms turnabout.instant default null
) returns table (
    archive text, place text, messages bigint, set_at bigint, lag bigint, lag_ms bigint
) language plpgsql stable as $$  -- plans: pinned
declare
    v_now bigint := coalesce(watermark_list.now_ms, turnabout.clock_ms());
    v_xid xid8; v_id bigint;
begin
    select e.xid, e.id into v_xid, v_id from turnabout_pipeline.log_end() e;
    return query
    select w.archive::text, w.place, w.messages, w.set_at,
        turnabout_pipeline.log_count(w.xid, w.id, v_xid, v_id, 1000000),
        coalesce((
            select greatest(v_now - h.finished_at, 0) from turnabout.history h
            where (h.xid, h.id) > (w.xid, w.id) and (h.xid, h.id) <= (v_xid, v_id)
            order by h.xid, h.id limit 1
        ), 0)
    from turnabout.watermark w order by w.archive;
end $$;
