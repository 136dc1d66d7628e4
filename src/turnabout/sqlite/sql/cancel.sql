-- Cancel: waiting messages end; the holders of leased ones learn of it at their next extend.
-- How a message ends is in finish.sql.

-- name: request
-- The holders of these messages will learn of it.
update turnabout_message set cancel_requested = 1 where id in (select value from json_each(:ids));
