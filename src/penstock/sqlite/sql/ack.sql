-- Ack: done. How a message ends is in finish.sql.

-- name: begin
-- From here on all can be undone, if not all receipts hold.
savepoint ack;

-- name: undo
-- Not all hold: as before.
rollback to ack;

-- name: end
-- Done, or undone.
release ack;
