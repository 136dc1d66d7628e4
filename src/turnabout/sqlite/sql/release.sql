-- Release: ready at once, uncharged.

-- name: release
-- These messages are ready again.
update turnabout_message set status = 0, at = 0 where id in (select value from json_each(:ids));
