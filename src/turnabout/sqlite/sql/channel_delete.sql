-- Channel delete: its steps are shared: see finish.sql and policy_set.sql.

-- name: waiting
-- The messages to cancel.
select id from turnabout_message
where queue_id = :queue and status = 0 and limited = 0 and channel = :channel
union all
select id from turnabout_message
where queue_id = :queue and status = 0 and limited = 1 and channel = :channel
union all
select id from turnabout_message
where queue_id = :queue and status = 1 and channel = :channel;
