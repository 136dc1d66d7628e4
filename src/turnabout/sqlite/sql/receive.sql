-- Receive: timers, wakes, channels in turn, leases.

-- name: is_quiet
-- A row, if the version still holds, no channel is limited, nothing is due, the inbox is empty.
select 1 from turnabout_queue as queue
where id = :queue and version = :version and not exists (select 1 from turnabout_inbox)
  and not exists (select 1 from turnabout_channel where queue_id = :queue)
  and not exists (select 1 from turnabout_message
                  where queue_id = :queue and status = 1 and at > 0 and at <= :now)
  and not exists (select 1 from turnabout_message
                  where queue_id = :queue and status = 2 and at > 0 and at <= :now)
  and not exists (select 1 from turnabout_message indexed by turnabout_message_expiry
                  where queue_id = :queue and expires_at is not null and expires_at <= :now
                    and status < 2);

-- name: timers
-- Whether anything is due: scheduled messages, leases that ran out, sleeping channels, messages
-- that have waited too long.
select
  exists (select 1 from turnabout_message
          where queue_id = :queue and status = 1 and at > 0 and at <= :now) as due,
  exists (select 1 from turnabout_message
          where queue_id = :queue and status = 2 and at > 0 and at <= :now) as expired,
  exists (select 1 from turnabout_channel
          where queue_id = :queue and wake_at > 0 and wake_at <= :now) as sleepers,
  exists (select 1 from turnabout_message indexed by turnabout_message_expiry
          where queue_id = :queue and expires_at is not null and expires_at <= :now
            and status < 2) as stale;

-- name: due
-- Scheduled messages that are due become ready. (`or fail` as in send.sql.)
update or fail turnabout_message set status = 0, at = 0
where id in (
  select id from turnabout_message where queue_id = :queue and status = 1 and at > 0 and at <= :now
  order by at, id limit :most
)
returning channel, limited;

-- name: expired
-- Leases that have run out, the oldest first.
select id, channel, limited, attempt, delivered_before, failures, crashes, errors, last_error,
  origin, cancel_requested
from turnabout_message where queue_id = :queue and status = 2 and at > 0 and at <= :now
order by at, id limit :most;

-- name: crash, crash_at_end
-- Their messages are charged with a crash and are ready again, or end now.
update turnabout_message set crashes = crashes + 1
  , status = 0, at = 0  -- only: crash
where id in (select value from json_each(:ids));

-- name: stale
-- Those of these messages that have waited too long.
select id, channel, limited from turnabout_message not indexed
where id in (select value from json_each(:ids)) and expires_at <= :now;

-- name: wake
-- Channels that slept until now are looked at again.
update turnabout_channel set wake_at = 0 where queue_id = :queue and name in (
  select name from turnabout_channel where queue_id = :queue and wake_at > 0 and wake_at <= :now
  order by wake_at limit :most
);

-- name: hop
-- The first messages of the next channels that no limit holds: one jump in the index `…_ready` for
-- each channel, however many messages and channels there are. SQLite runs `hop` as a coroutine: the
-- limit at the end stops the hopping; past the last channel it finds a null, which ends it.
-- (`_round_robin.py` may replace the columns read here and below by all those of a delivery.)
with recursive hop (name) as (
  select * from (
    select channel from turnabout_message
    where queue_id = :queue and status = 0 and limited = 0
      and channel >= :first and channel < :until
    order by channel limit 1
  )
  union all
  select (
    select channel from turnabout_message
    where queue_id = :queue and status = 0 and limited = 0
      and channel > hop.name and channel < :until
    order by channel limit 1
  )
  from hop where hop.name is not null
)
select id, attempt + 1, channel, priority, payload, content_type, headers, state, failures, crashes,
  sent_at, origin
from hop
cross join turnabout_message on id in (
  select id from turnabout_message
  where queue_id = :queue and status = 0 and limited = 0 and channel = hop.name
  order by priority, id limit :quantum
)
limit :most;

-- name: first, heads, shard_heads
-- The first message of channels, as `hop` of one finds it, without its tables for hopping, which
-- take half of the time. The first messages of one channel, but for those that are known; of its
-- messages without a channel a shard takes its share by their ids.
select id, attempt + 1, channel, priority, payload, content_type, headers, state, failures, crashes,
  sent_at, origin
from turnabout_message
where queue_id = :queue and status = 0 and limited = 0
  and channel >= :first and channel < :until  -- only: first
  and channel = :channel  -- only: heads, shard_heads
  and id % :shards = :shard  -- only: shard_heads
order by channel, priority, id
limit 1;  -- only: first
limit :most offset :known;  -- only: heads, shard_heads

-- name: next
-- The first message after a channel, or else of all: a `first` for the whole circle of names.
select id, attempt + 1, channel, priority, payload, content_type, headers, state, failures, crashes,
  sent_at, origin
from turnabout_message not indexed
where id = coalesce(
  (
    select id from turnabout_message
    where queue_id = :queue and status = 0 and limited = 0 and channel > :channel
    order by channel, priority, id limit 1
  ),
  (
    select id from turnabout_message where queue_id = :queue and status = 0 and limited = 0
    order by channel, priority, id limit 1
  )
);

-- name: has_others
-- Whether any other channel has messages that no limit holds.
select exists (
  select 1 from turnabout_message
  where queue_id = :queue and status = 0 and limited = 0 and channel > :channel
) or exists (
  select 1 from turnabout_message
  where queue_id = :queue and status = 0 and limited = 0 and channel < :channel
);

-- name: any_awake
-- Whether any limited channel may have something to give.
select exists (
  select 1 from turnabout_channel indexed by turnabout_channel_awake
  where queue_id = :queue and wake_at = 0
);

-- name: awake
-- The next limited channels that may have something to give. Without `indexed by`, SQLite would
-- walk over all that sleep.
select * from turnabout_channel indexed by turnabout_channel_awake
where queue_id = :queue and wake_at = 0 and name >= :first and name < :until order by name
limit :most;

-- name: move_over
-- The first messages of a channel that were sent before it was limited.
update turnabout_message set limited = 1 where id in (
  select id from turnabout_message
  where queue_id = :queue and status = 0 and limited = 0 and channel = :channel
  order by priority, id limit :most
);

-- name: limited_heads
-- The first messages of a limited channel, and until when a FIFO queue holds them.
select id, attempt + 1, channel, priority, payload, content_type, headers, state, failures, crashes,
  sent_at, origin, at
from turnabout_message where queue_id = :queue and limited = 1 and channel = :channel and status = 0
order by priority, id limit :most offset :taken;

-- name: served
-- A limited channel after a visit: its slots, its bucket, and until when it sleeps.
update turnabout_channel set leased = leased + ?, tat_us = ?, depth_us = ?, wake_at = ?
where queue_id = ? and name = ?;

-- name: lease
-- The leases. (`or fail` as in send.sql.)
update or fail turnabout_message set status = 2, at = ?, attempt = attempt + 1, leased_at = ?
where id in (?);

-- name: next_timer
-- When something of the queue is due next; null: nothing is. (The end of a FIFO head opens its
-- channel.)
select min(t) from (
  select min(at) as t from turnabout_message where queue_id = :queue and status = 1 and at > 0
  union all
  select min(at) from turnabout_message where queue_id = :queue and status = 2 and at > 0
  union all
  select min(wake_at) from turnabout_channel where queue_id = :queue and wake_at > 0
  union all
  select min(expires_at) from turnabout_message indexed by turnabout_message_expiry
  where queue_id = :queue and expires_at is not null and status < 2
);
