-- Extend: leases run until an instant; never shorter than they do already, unless it is exact.

-- name: extend
-- The new end of each lease, and the worker's note, if there is one.
update turnabout_message set at = iif(:exact, :until, max(at, :until)), note = ifnull(:note, note)
where id in (select value from json_each(:ids)) returning id, at, cancel_requested;
