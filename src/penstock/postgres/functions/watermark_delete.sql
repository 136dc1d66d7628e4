-- Forget an archive; whether it was there.
create or replace function penstock.watermark_delete(archive text) returns boolean
language plpgsql as $$
#variable_conflict use_column
begin
    delete from penstock.watermark w where w.archive = watermark_delete.archive;
    return found;
end
$$;
