-- The file's time: see sqlite/_clock.py.

-- name: latest
-- The latest time that the file has seen.
select latest_ms from turnabout_clock where id = 1;

-- name: keep
-- Another one; an earlier one, where that was wrong.
update turnabout_clock set latest_ms = ? where id = 1;
