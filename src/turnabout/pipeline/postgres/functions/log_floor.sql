-- The highest position that something was removed at; null: nothing ever was.
create or replace function turnabout_pipeline.log_floor(out xid xid8, out id bigint)
language plpgsql stable as $$
begin
    select f.xid, f.id into log_floor.xid, log_floor.id from turnabout.history_floor f
    order by f.xid desc, f.id desc limit 1;
end $$;
