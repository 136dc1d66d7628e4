-- Forget an archive; whether it was there.
create or replace function turnabout_pipeline.watermark_delete(archive text) returns boolean
language plpgsql as $$  -- plans: free
begin
    delete from turnabout.watermark w where w.archive = watermark_delete.archive;
    return found;
end $$;
