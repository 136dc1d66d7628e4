-- Defer: back for later, uncharged.

-- name: put_back
-- The message waits until `at`, with new state, or with the state that it has.
update turnabout_message set status = ?, at = ?, state = coalesce(?, state) where id = ?;
