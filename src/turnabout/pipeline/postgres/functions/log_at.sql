-- The position right before the first row of the log that finished at an instant or later, and the
-- floor where that is higher: what is missing below it is known. The end without one.
create or replace function turnabout_pipeline.log_at(
    at bigint, out xid xid8, out id bigint, out known_xid xid8, out known_id bigint
) language plpgsql stable as $$  -- plans: pinned
declare
    v_before xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
    select h.xid, h.id - 1 into log_at.xid, log_at.id from turnabout.history h
    where h.finished_at >= log_at.at and h.xid < v_before order by h.xid, h.id limit 1;
    if not found then
        select e.xid, e.id into log_at.xid, log_at.id from turnabout_pipeline.log_end() e;
    end if;
    select f.xid, f.id into known_xid, known_id from turnabout_pipeline.log_floor() f
    where (f.xid, f.id) > (log_at.xid, log_at.id);
end $$;
