-- Extend: leases run for longer, never shorter.

-- name: extend
-- The new end of each lease, and the worker's note, if there is one.
update turnabout_message set at = max(at, :until), note = ifnull(:note, note)
where id in (select value from json_each(:ids))
returning id, at, cancel_requested;
