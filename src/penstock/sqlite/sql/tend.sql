-- Tend: a bounded share of housekeeping. Writes nothing when there is nothing to do.

-- name: oldest
-- When the message that finished first did so.
select finished_at from history where queue_id = :queue order by seq limit 1;

-- name: sweep
-- The oldest rows of history, as far as they are too old.
delete from history
where queue_id = :queue and finished_at < :before and seq < :most + (
  select seq from history where queue_id = :queue order by seq limit 1
);

-- name: idle
-- Channels without a policy of their own, without messages and without debt.
select name from channel indexed by channel_idle
where queue_id = :queue and tat_us <= :now_us and size = 0 and paused = 0
  and max_concurrency is null and rate_count is null and max_size is null and weight is null
order by tat_us
limit :most;

-- name: drop
-- Their rows.
delete from channel
where queue_id = :queue and name in (select value from json_each(:names));
