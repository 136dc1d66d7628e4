-- The last position that can be read: no running transaction can still put a row before it. At
-- least the floor; null: there never was anything.
create or replace function turnabout_pipeline.log_end(out xid xid8, out id bigint)
language plpgsql stable as $$
declare
    v_before xid8 := pg_snapshot_xmin(pg_current_snapshot());
begin
    select p.xid, p.id into log_end.xid, log_end.id from (
        (select h.xid, h.id from turnabout.history h
        where h.xid < v_before order by h.xid desc, h.id desc limit 1)
        union all
        select f.xid, f.id from turnabout_pipeline.log_floor() f where f.xid is not null
    ) p
    order by p.xid desc, p.id desc limit 1;
end $$;
