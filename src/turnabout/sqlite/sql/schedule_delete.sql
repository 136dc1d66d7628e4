-- Schedule delete.

-- name: delete
-- The schedule.
delete from turnabout_schedule where name = :name;
