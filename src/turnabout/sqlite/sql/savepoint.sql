-- A part of a verb that may be undone.

-- name: begin
-- From here on.
savepoint turnabout_part;

-- name: undo
-- As it was before.
rollback to turnabout_part;

-- name: end
-- Done, or undone.
release turnabout_part;
