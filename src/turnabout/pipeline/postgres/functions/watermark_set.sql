-- Note how far an archive has come.
create or replace function turnabout_pipeline.watermark_set(
    archive text, place text, xid xid8, id bigint, messages bigint,
    now_ms turnabout.instant default null
) returns void language plpgsql as $$  -- plans: free
begin
    insert into turnabout.watermark (archive, place, xid, id, messages, set_at)
    values (
        watermark_set.archive, watermark_set.place, watermark_set.xid, watermark_set.id,
        watermark_set.messages, coalesce(watermark_set.now_ms, turnabout.clock_ms())
    ) on conflict (archive) do update
    set place = excluded.place, xid = excluded.xid, id = excluded.id,
        messages = excluded.messages, set_at = excluded.set_at;
end $$;
