-- Extend: leases run for longer, never shorter.

-- name: extend
-- The new end of each lease.
update turnabout_message set at = max(at, :until)
where id in (select value from json_each(:ids))
returning id, at, cancel_requested;
