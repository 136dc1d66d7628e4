-- Cancel: waiting messages end, holders of others are told. How a message ends is in finish.sql.

-- name: request
-- The holders of these messages will be told.
update turnabout_message set cancel_requested = 1 where id in (select value from json_each(:ids));
