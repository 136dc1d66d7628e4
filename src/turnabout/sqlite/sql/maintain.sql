-- Maintain: a bounded share of housekeeping. Writes nothing when there is nothing to do.

-- name: leases_ahead
-- Whether a lease, of those that end last, was made later than now: the clock was set back.
select max(leased_at) > :latest from (
  select leased_at from turnabout_message where queue_id = :queue and status = 2 and at > 0
  order by at desc limit 100
);

-- name: leases_back
-- They run as long as they did before.
update turnabout_message set at = at - (leased_at - :now), leased_at = :now
where queue_id = :queue and status = 2 and at > 0 and leased_at > :latest;

-- name: debts_back
-- Channels that sleep since their bucket owes more than it holds, for the same reason.
update turnabout_channel set tat_us = :now * 1000 + depth_us, wake_at = 0
where queue_id = :queue and tat_us > :latest * 1000 + depth_us and name in (
  select name from turnabout_channel where queue_id = :queue and wake_at > 0 and wake_at > :latest
  order by wake_at desc limit 100
);

-- name: debt_back
-- A queue's own bucket, in the same way.
update turnabout_queue set queue_tat_us = :now * 1000 + queue_rate_burst * queue_rate_interval_us
where id = :queue and queue_tat_us > :latest * 1000 + queue_rate_burst * queue_rate_interval_us;

-- name: delays_back
-- Delays last as long as was said; in a FIFO queue those of heads.
update turnabout_message
set at = :now + at - max(sent_at, coalesce(leased_at, 0)), sent_at = min(sent_at, :now),
  leased_at = min(leased_at, :now)
where max(sent_at, coalesce(leased_at, 0)) > :latest and id in (
  select id from turnabout_message
  where queue_id = :queue and status = :waits and at > 0 and at > :latest order by at desc limit 100
);

-- name: heads_back
-- Channels whose heads these are look again.
update turnabout_channel set wake_at = 0
where queue_id = :queue and wake_at > 0 and wake_at > :latest;

-- name: done_to
-- Up to where the history of done messages is too old: before the first one that is not, among the
-- next rows after the last sweep. Null: there are no rows. (SQLite runs the inner select as a
-- coroutine, in its order: as a rule it stops at the first row.)
select coalesce(
  (
    select seq - 1 from (
      select seq, outcome, finished_at from turnabout_history
      where queue_id = :queue and seq > :swept order by seq limit :most
    )
    where outcome = 'done' and finished_at >= :before limit 1
  ),
  (
    select max(seq) from (
      select seq from turnabout_history
      where queue_id = :queue and seq > :swept order by seq limit :most
    )
  )
);

-- name: last_done
-- The place of the last of them. (Beyond it the sweep may have passed by rows of others.)
select (
  select seq from turnabout_history
  where queue_id = :queue and seq > :swept and seq <= :upto and outcome = 'done' order by seq desc
  limit 1
);

-- name: sweep_done
-- Their rows.
delete from turnabout_history
where queue_id = :queue and seq > :swept and seq <= :upto and outcome = 'done';

-- name: swept
-- The next sweep goes on from there.
update turnabout_queue set swept = :upto where id = :queue;

-- name: any_failed
-- Whether a row of a message that was not done is too old.
select exists (
  select 1 from turnabout_history indexed by turnabout_history_failed
  where queue_id = :queue and outcome <> 'done' and finished_at < :before
);

-- name: last_failed, sweep_failed
-- The place of the last of those that go, the oldest ones; and then they go.
select max(seq) from (  -- only: last_failed
delete from turnabout_history where queue_id = :queue and seq in (  -- only: sweep_failed
  select seq from turnabout_history indexed by turnabout_history_failed
  where queue_id = :queue and outcome <> 'done' and finished_at < :before order by finished_at, seq
  limit :most
);

-- name: old_events
-- Up to where the events are too old. They are in order of time, as there is one writer.
select max(seq) from (
  select seq, at from turnabout_event where queue_id = :queue order by seq limit :most
) where at < :before;

-- name: sweep_events
-- These events.
delete from turnabout_event where queue_id = :queue and seq <= :upto;

-- name: any_dedup
-- Whether a window of a dedup entry is over, and the lowest and highest message that entries
-- without a window point at.
select exists (select 1 from turnabout_dedup where queue_id = :queue and until_ms <= :now) as over,
  (select min(message_id) from turnabout_dedup
    where queue_id = :queue and until_ms is null) as least,
  (select max(message_id) from turnabout_dedup
    where queue_id = :queue and until_ms is null) as most;

-- name: windows_over
-- Dedup entries whose window is over, and whether their message is still there: for other modes it
-- goes on to count.
select scope, key, exists (
  select 1 from turnabout_message not indexed where id = entry.message_id and queue_id = :queue
) as is_there
from (
  select scope, key, message_id from turnabout_dedup indexed by turnabout_dedup_sweep
  where queue_id = :queue and until_ms <= :now order by until_ms limit :most
) as entry;

-- name: without_window
-- One dedup entry, from now on one without a window.
update turnabout_dedup set until_ms = null where queue_id = ? and scope = ? and key = ?;

-- name: ended_dedup
-- Of the next dedup entries from a message on: those whose message has ended, or went elsewhere.
select scope, key from (
  select scope, key, message_id from turnabout_dedup indexed by turnabout_dedup_sweep
  where queue_id = :queue and until_ms is null and message_id >= :first order by message_id
  limit :most
) as entry
where not exists (
  select 1 from turnabout_message not indexed where id = entry.message_id and queue_id = :queue
);

-- name: sweep_entry
-- One dedup entry.
delete from turnabout_dedup where queue_id = ? and scope = ? and key = ?;

-- name: redrives
-- Running redrives out of this queue and out of its dead-letter queue.
select id from turnabout_redrive indexed by turnabout_redrive_running
where queue_id in (:queue, :dead) and state = 'running';

-- name: idle
-- Channels without a policy of their own, without messages and without debt.
select name from turnabout_channel indexed by turnabout_channel_idle
where queue_id = :queue and tat_us <= :now_us and size = 0 and paused = 0
  and max_concurrency is null and rate_count is null and max_size is null and weight is null
  and pause_reason is null and paused_until is null
order by tat_us limit :most;

-- name: drop
-- Their rows.
delete from turnabout_channel
where queue_id = :queue and name in (select value from json_each(:names));
