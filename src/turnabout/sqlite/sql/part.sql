-- A part of a verb that may be undone.

-- name: begin
-- From here on.
savepoint part;

-- name: undo
-- As it was before.
rollback to part;

-- name: end
-- Done, or undone.
release part;
