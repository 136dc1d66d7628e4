-- Schedule delete.

-- name: delete
-- The schedule.
delete from schedule where name = :name;
