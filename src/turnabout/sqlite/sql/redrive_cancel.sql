-- Redrive cancel: a running one stops where it is.

-- name: cancel
-- The redrive.
update turnabout_redrive set state = 'cancelled', finished_at = :now, next_at = null
where id = :id and state = 'running';
