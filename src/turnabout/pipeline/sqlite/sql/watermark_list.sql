-- Watermark list: by name.

-- name: all
-- All.
select archive, position, messages, set_at from watermark order by archive;
