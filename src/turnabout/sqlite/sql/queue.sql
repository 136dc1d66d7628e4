-- Steps that many verbs share: find a queue, make one, count.

-- name: counts
-- The columns of a queue's row that change all the time, the version of the others, and whether any
-- of its channels is limited. In the order of `_COUNTS`.
select id, version, (select sent from turnabout_given where queue_id = queue.id) as sent,
  ids_until, mixed, done, dead, cancelled, expired, swept,
  exists (select 1 from turnabout_channel where queue_id = queue.id) as has_channels
from turnabout_queue as queue where name = :name;

-- name: find
-- The queue's row.
select * from turnabout_queue where name = :name;

-- name: here
-- Nothing; or an error, if the queues are elsewhere.
select exists (select 1 from turnabout_queue where id = 0);

-- name: name
-- The name of a queue.
select name from turnabout_queue where id = :id;

-- name: add
-- A new queue; its settings are in the order of `SETTINGS_COLUMNS`.
insert into turnabout_queue (
  name, created_at, modified_at, version,
  lease_ms, max_attempts, max_deliveries, backoff_ms, backoff_max_ms, backoff_jitter_percent,
  delay_ms, fifo, fifo_run, paused, pause_reason, on_exhausted, dead_letter, ttl_ms, max_messages,
  queue_max_concurrency, dedup_mode, dedup_window_ms, dedup_scope, history_ms, history_failed_ms,
  history_payload, events,
  queue_rate_count, queue_rate_period_ms, queue_rate_burst, queue_rate_interval_us,
  max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight,
  labels
) values (
  :name, :created_at, :created_at, random(),
  :lease_ms, :max_attempts, :max_deliveries, :backoff_ms, :backoff_max_ms, :backoff_jitter_percent,
  :delay_ms, :fifo, :fifo_run,
  :paused, :pause_reason, :on_exhausted, :dead_letter, :ttl_ms, :max_messages,
  :queue_max_concurrency, :dedup_mode, :dedup_window_ms, :dedup_scope, :history_ms,
  :history_failed_ms, :history_payload, :events,
  :queue_rate_count, :queue_rate_period_ms, :queue_rate_burst, :queue_rate_interval_us,
  :max_concurrency, :rate_count, :rate_period_ms, :rate_burst, :rate_interval_us, :max_size,
  :weight, :labels
);

-- name: own_limits
-- Live leases and bucket of a queue with limits of its own.
select queue_leased, queue_tat_us from turnabout_queue where id = ?;

-- name: set_own_limits
-- The same, from now on.
update turnabout_queue set queue_leased = ?, queue_tat_us = ? where id = ?;

-- name: leases_ended
-- Subtract leases that have ended.
update turnabout_queue set queue_leased = queue_leased - ? where id = ?;

-- name: count_leases
-- Its leases, counted.
select count(*) from turnabout_message where queue_id = ? and status = 2 and at > 0;

-- name: set_dead_letter
-- Where the queue's dead messages go.
update turnabout_queue set dead_letter_id = :dead_letter_id where id = :id;

-- name: dead_letter_of
-- Where the queue's dead messages go.
select dead_letter_id from turnabout_queue where id = :id;

-- name: moved
-- Messages have come from another queue; or, with an `n` below zero, have gone to one.
update turnabout_queue set sent = sent + :n, last_id = max(last_id, :last), mixed = mixed or :n > 0
where id = :queue;

-- name: last_id, last_id_if_plain
-- The last id that was given, and where the block of them ends. For a plain send, only if the
-- queue's settings are of this version, and no channel of it is limited.
select last_id, ids_until from turnabout_given
where queue_id = :queue
  and version = :version and not exists (  -- only: last_id_if_plain
    select 1 from turnabout_channel where queue_id = :queue)  -- only: last_id_if_plain
;

-- name: take_block, use_block
-- Another block of ids, of all that were never taken; and the queue goes on with that.
update turnabout_clock set ids_taken = ids_taken + :n  -- only: take_block
where id = 1 returning ids_taken;  -- only: take_block
update turnabout_queue  -- only: use_block
set sent = (select sent from turnabout_given where queue_id = :queue),  -- only: use_block
  ids_after = :until - :n, last_id = :until - :n, ids_until = :until  -- only: use_block
where id = :queue;  -- only: use_block

-- name: count_done, count_done_if_same, count_dead, count_cancelled, count_expired
-- More messages end so, the last one of the queue's own ids is `last`. `cancelled` counts the
-- expired ones, too. If same: if the queue's settings are of this version, and messages with ids
-- from `first` to `last` are all its own, or all from another queue.
update turnabout_queue
set done = done + :n,  -- only: count_done, count_done_if_same
set dead = dead + :n,  -- only: count_dead
set cancelled = cancelled + :n,  -- only: count_cancelled
set cancelled = cancelled + :n, expired = expired + :n,  -- only: count_expired
  last_id = iif(:last <= ids_until, max(last_id, :last), last_id)
where id = :queue
  and version = :version and (:last <= ids_until or :first > ids_until)  -- only: count_done_if_same
;
