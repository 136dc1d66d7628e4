-- Token revoke: it opens no door from now on.

-- name: revoke
-- One that was revoked stays as it is.
update turnabout_token set revoked_at = :now where id = :id and revoked_at is null;
