-- Expire: waiting messages whose time to live has passed.

-- name: stale
-- Waiting messages whose time is over, the first ones first.
select id, channel from turnabout_message indexed by turnabout_message_expiry
where queue_id = :queue and expires_at is not null and expires_at <= :now and status < 2
order by expires_at limit :most;

-- name: any
-- Whether there is one.
select exists (
  select 1 from turnabout_message indexed by turnabout_message_expiry
  where queue_id = :queue and expires_at is not null and expires_at <= :now and status < 2
);
