-- Watermark delete: an archive is forgotten.

-- name: delete
-- It.
delete from watermark where archive = :archive;
