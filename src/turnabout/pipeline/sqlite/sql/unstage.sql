-- Unstage: what is put aside goes.

-- name: attempts
-- Of these attempts.
delete from stage indexed by stage_attempt
where attempt in (select value from json_each(:attempts));

-- name: old
-- Of anybody, if it is old.
delete from stage where staged_at < :before;
