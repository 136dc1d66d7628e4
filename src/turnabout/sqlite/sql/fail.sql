-- Fail: this attempt failed; back after a back-off. How a message dies is in finish.sql.

-- name: put_back
-- The message waits until `at`, charged with a failure.
update turnabout_message set status = ?, at = ?, failures = failures + 1, errors = ?, last_error = ?
where id = ?;
