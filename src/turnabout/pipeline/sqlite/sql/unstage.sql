-- Unstage: what is put aside goes.

-- name: attempts
-- Of these attempts.
delete from turnabout_stage indexed by turnabout_stage_attempt
where attempt in (select value from json_each(:attempts)) returning messages;

-- name: old
-- Of anybody, if it is old.
delete from turnabout_stage where staged_at < :before returning messages;
