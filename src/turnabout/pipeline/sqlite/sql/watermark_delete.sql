-- Watermark delete: an archive is forgotten.

-- name: delete
-- It.
delete from turnabout_watermark where archive = :archive;
