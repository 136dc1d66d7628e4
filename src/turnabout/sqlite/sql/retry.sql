-- Retry: ready now, charges forgotten.

-- name: retry
-- These messages.
update turnabout_message set status = 0, at = 0, failures = 0, crashes = 0,
  delivered_before = attempt
where id in (select value from json_each(:ids));
