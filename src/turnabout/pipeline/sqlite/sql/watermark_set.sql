-- Watermark set: how far an archive has come.

-- name: set
-- It, made or moved.
insert into turnabout_watermark (archive, position, messages, set_at)
values (:archive, :position, :messages, :now) on conflict (archive) do update
set position = excluded.position, messages = excluded.messages, set_at = excluded.set_at;
