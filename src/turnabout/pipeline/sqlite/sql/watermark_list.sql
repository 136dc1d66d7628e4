-- Watermark list: by name.

-- name: all
-- All.
select archive, position, messages, set_at from turnabout_watermark order by archive;
