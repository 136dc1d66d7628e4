-- Doctor: what must agree, and what must not be. Most steps count, and are named as their check.

-- name: queues
-- The counts of each queue, against its messages.
select queue.name, paused, given.sent, done + dead + cancelled as finished,
  (select count(*) from turnabout_message where queue_id = queue.id) as live,
  (select count(*) from turnabout_message
   where queue_id = queue.id and status = 2 and at < :overdue) as overdue,
  (select min(sent_at) from turnabout_message where queue_id = queue.id and status = 0) as oldest
from turnabout_queue as queue join turnabout_given as given on given.queue_id = queue.id
order by queue.name;

-- name: no queue
-- Messages of no queue.
select count(*) from turnabout_message where queue_id not in (select id from turnabout_queue);

-- name: no channel
-- Limited messages whose channel has no row.
select count(*) from turnabout_message as message
where limited = 1 and not exists (
  select 1 from turnabout_channel where queue_id = message.queue_id and name = message.channel
);

-- name: asleep
-- Channels asleep until something happens, with work, and nothing under way that could wake them.
select count(*) from turnabout_channel as channel
join turnabout_queue as queue on queue.id = channel.queue_id
where channel.wake_at is null and not channel.paused and not queue.paused and channel.leased = 0
  and exists (
    select 1 from turnabout_message
    where queue_id = channel.queue_id and channel = channel.name and limited = 1 and status = 0
  );

-- name: channels
-- The own counts of a channel, or of a queue with limits, against its messages, those from before
-- it had limits among them.
select (
  select count(*) from turnabout_channel as c
  left join (
    select queue_id, channel, count(*) as size, sum(limited = 1 and status = 2) as leased
    from turnabout_message group by queue_id, channel
  ) as found on found.queue_id = c.queue_id and found.channel = c.name
  where c.size <> coalesce(found.size, 0) or c.leased <> coalesce(found.leased, 0)
) + (
  select count(*) from turnabout_queue as queue
  where coalesce(queue_max_concurrency, queue_rate_count) is not null and queue_leased <> (
    select count(*) from turnabout_message where queue_id = queue.id and status = 2
  )
);

-- name: endings
-- Messages that have ended, and are here. (No redrive takes another ending than `dead` back.)
select count(*) from turnabout_message as message
join turnabout_history as history on history.id = message.id and history.queue_id = message.queue_id
where history.outcome <> 'dead';

-- name: one ending
-- Messages of the last hour that ended twice in one queue.
select count(*) from (
  select 1 from turnabout_history where finished_at > :now - 3600000 and outcome <> 'dead'
  group by queue_id, id having count(*) > 1
);

-- name: order
-- FIFO channels with more leases than one receive may take.
select count(*) from (
  select 1 from turnabout_message as message
  join turnabout_queue as queue on queue.id = message.queue_id
  where queue.fifo and message.status = 2
  group by message.queue_id, message.channel having count(*) > queue.fifo_run
);

-- name: slots
-- Channels and queues with more leases than they have slots.
select count(*) from (
  select 1 from turnabout_message as message
  join turnabout_queue as queue on queue.id = message.queue_id
  where message.status = 2 and message.at > :now
  group by queue.id having count(*) > queue.queue_max_concurrency
  union all
  select 1 from turnabout_message as message
  join turnabout_queue as queue on queue.id = message.queue_id
  left join turnabout_channel as channel
    on channel.queue_id = message.queue_id and channel.name = message.channel
  where message.status = 2 and message.limited and message.at > :now
  group by message.queue_id, message.channel,
    coalesce(channel.max_concurrency, queue.max_concurrency)
  having count(*) > coalesce(channel.max_concurrency, queue.max_concurrency)
);

-- name: rates
-- Channels that handed out more since one period than their rate allows, as far as it is leased or
-- done: a lower bound.
select count(*) from (
  select 1 from (
    select queue_id, channel, leased_at from turnabout_message where status = 2 and limited
    union all
    select queue_id, channel, leased_at from turnabout_history
    where finished_at > :now - 86400000 and leased_at > :now - 86400000 and outcome = 'done'
  ) as delivered
  join turnabout_queue as queue on queue.id = delivered.queue_id
  join turnabout_channel as channel
    on channel.queue_id = delivered.queue_id and channel.name = delivered.channel
  where coalesce(channel.rate_count, queue.rate_count) is not null and delivered.leased_at
      > :now - iif(channel.rate_count is null, queue.rate_period_ms, channel.rate_period_ms)
  group by delivered.queue_id, delivered.channel
  having count(*) > iif(
    channel.rate_count is null,
    queue.rate_count + queue.rate_burst, channel.rate_count + channel.rate_burst)
);

-- name: bounds
-- Queues and channels that hold more than they may.
select (
    select count(*) from (
      select 1 from turnabout_message as message
      join turnabout_queue as queue on queue.id = message.queue_id
      where queue.max_messages is not null group by queue.id having count(*) > queue.max_messages
    )
  ) + (
    select count(*) from (
      select 1 from turnabout_message as message
      join turnabout_queue as queue on queue.id = message.queue_id
      join turnabout_channel as channel
        on channel.queue_id = message.queue_id and channel.name = message.channel
      where coalesce(channel.max_size, queue.max_size) is not null group by queue.id, channel.name
      having count(*) > coalesce(channel.max_size, queue.max_size)
    )
  );

-- name: one lease
-- Messages that are there twice.
select count(*) from (select 1 from turnabout_message group by id having count(*) > 1);

-- name: charges
-- Messages that were charged more often than they were delivered.
select (select count(*) from turnabout_message where failures + crashes > attempt - (status = 2))
  + (select count(*) from turnabout_history
     where finished_at > :now - 3600000 and failures + crashes > attempt);

-- name: early
-- Messages that are ready before they are due; messages delivered before they were due, by the
-- events of the last hour (a receive reads the clock before it finds messages sent meanwhile);
-- schedules that have fired in the future.
select (
    select count(*) from turnabout_message as message
    join turnabout_queue as queue on queue.id = message.queue_id
    where message.status = 0 and message.at > :now + 60000 and not queue.fifo
  ) + (
    select count(*) from (
      select kind, at, lag(kind) over told as before, lag(due_at) over told as due_at
      from turnabout_event where at > :now - 3600000
      window told as (partition by queue_id, message_id order by seq)
    )
    where kind = 'leased' and before in ('created', 'deferred', 'failed') and due_at > at + 1000
  ) + (select count(*) from turnabout_schedule where last_at > :now + 60000);

-- name: keys
-- Dedup keys that stand for two messages.
select count(*) from (
  select 1 from turnabout_dedup group by queue_id, scope, key having count(*) > 1
);

-- name: cancelled
-- Messages that wait, although they were cancelled while they were leased.
select count(*) from turnabout_message where cancel_requested and status < 2;

-- name: expiry
-- Messages that have expired, but have not been ended yet.
select count(*) from turnabout_message where expires_at < :now - 60000 and status < 2;

-- name: exhausted
-- Messages without attempts left, which hold their FIFO channels.
select count(*) from turnabout_message where status < 2 and at >= 9000000000000000;

-- name: dead letters
-- Queues that name a dead-letter queue that is not there.
select count(*) from turnabout_queue as queue
where dead_letter is not null
  and not exists (select 1 from turnabout_queue where name = queue.dead_letter);

-- name: dedup
-- Dedup entries of no queue.
select count(*) from turnabout_dedup where queue_id not in (select id from turnabout_queue);

-- name: schedules
-- Schedules that are overdue.
select count(*) from turnabout_schedule where not paused and next_at < :now - 120000;

-- name: redrives
-- Redrives out of a queue that is gone.
select count(*) from turnabout_redrive
where state = 'running' and queue_id not in (select id from turnabout_queue);

-- name: retention
-- Queues that keep history for more than a day longer than they should.
select count(*) from turnabout_queue as queue
where exists (
  select 1 from turnabout_history
  where queue_id = queue.id
    and finished_at < :now - 86400000 - max(queue.history_ms, coalesce(queue.history_failed_ms, 0))
);

-- name: events
-- Events that are older than two days.
select count(*) from turnabout_event where at < :now - 172800000;

-- name: inbox
-- Rows of the inbox that could not be sent.
select count(*) from turnabout_inbox_refused;
