-- Policy get: its step is shared: see channel.sql.

-- name: policy
-- The channel's row.
select * from turnabout_channel where queue_id = :queue and name = :channel;
