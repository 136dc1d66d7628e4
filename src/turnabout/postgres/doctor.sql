-- Doctor: what must agree, and what must not be. Most statements count, and are named as their
-- check. Rows of message with negative ids are head marks, and no messages.

-- name: oldest transaction
-- The client that has had a transaction open for the longest.
select pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''),
  extract(epoch from clock_timestamp() - xact_start)::float8
from pg_stat_activity
where xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'
order by xact_start limit 1;

-- name: old slot
-- The replication slot that holds back most.
select slot_name, age(coalesce(xmin, catalog_xmin)) from pg_replication_slots
where xmin is not null order by age(xmin) desc limit 1;

-- name: old prepared
-- The oldest prepared transaction.
select gid, extract(epoch from clock_timestamp() - prepared)::float8 from pg_prepared_xacts
order by prepared limit 1;

-- name: deadlocks
-- Since the server's statistics began, of whatever programs.
select deadlocks from pg_stat_database where datname = current_database();

-- name: now
-- The server's clock.
select (extract(epoch from clock_timestamp()) * 1000)::bigint;

-- name: queues
-- The counts of each queue, against its messages.
select q.name, q.paused,
  coalesce(t.sent, 0)::bigint, coalesce(t.finished, 0)::bigint,
  coalesce(m.live, 0), coalesce(m.overdue, 0), m.oldest
from turnabout.queue q
left join (
  select queue_id, sum(sent) as sent, sum(done + dead + cancelled + expired) as finished
  from turnabout.tally group by queue_id
) t on t.queue_id = q.id
left join (
  select queue_id, count(*) as live,
    count(*) filter (where status = 2 and at < %(overdue)s) as overdue,
    min(sent_at) filter (where status = 0) as oldest
  from turnabout.message where id > 0 group by queue_id
) m on m.queue_id = q.id
order by q.name;

-- name: no queue
-- Messages of no queue.
select count(*) from turnabout.message m
where not exists (select from turnabout.queue q where q.id = m.queue_id);

-- name: no channel
-- Limited messages with neither a channel row nor a wake row that makes receive write one.
select count(*) from turnabout.message m
where m.limited
  and not exists (
    select from turnabout.channel c where c.queue_id = m.queue_id and c.name = m.channel)
  and not exists (
    select from turnabout.wake w where w.queue_id = m.queue_id and w.channel = m.channel);

-- name: asleep
-- Channels asleep until something happens, with work, and nothing under way that could wake them.
select count(*) from turnabout.channel c join turnabout.queue q on q.id = c.queue_id
where not c.awake and c.wake_at is null and not c.paused and not q.paused
  and exists (
    select from turnabout.message m where m.queue_id = c.queue_id and m.channel = c.name
      and m.limited and m.status = 0)
  and not exists (
    select from turnabout.message m where m.queue_id = c.queue_id and m.channel = c.name
      and m.limited and m.status = 2)
  and not exists (
    select from turnabout.wake w where w.queue_id = c.queue_id and w.channel = c.name);

-- name: endings
-- Messages that have ended, and are here. (No redrive takes another ending than `dead` back.)
select count(*)
from turnabout.message m
join turnabout.history h on h.id = m.id and h.queue_id = m.queue_id
where h.outcome <> 2;

-- name: one ending
-- Messages of the last hour that have ended twice; a redriven one may die again.
select count(*)
from (
    select 1
    from turnabout.history h
    where h.finished_at > %(now)s - 3600000 and h.outcome <> 2
    group by h.queue_id, h.id
    having count(*) > 1
) twice;

-- name: order
-- FIFO channels with more than one lease.
select count(*)
from (
    select 1
    from turnabout.message m
    join turnabout.queue q on q.id = m.queue_id
    where q.fifo and m.status = 2
    group by m.queue_id, m.channel
    having count(*) > 1
) two;

-- name: slots
-- Channels with more leases than slots.
select count(*)
from (
    select 1
    from turnabout.message m
    join turnabout.queue q on q.id = m.queue_id
    left join turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel
    where m.status = 2 and m.limited and m.at > %(now)s
    group by m.queue_id, m.channel, coalesce(c.max_concurrency, q.max_concurrency)
    having count(*) > coalesce(c.max_concurrency, q.max_concurrency)
) over_limit;

-- name: rates
-- Channels that were handed out faster than their rate, by what is leased or done.
select count(*)
from (
    select 1
    from (
        select m.queue_id, m.channel, m.leased_at
        from turnabout.message m
        where m.status = 2 and m.limited and m.id > 0
        union all
        select h.queue_id, h.channel, h.leased_at
        from turnabout.history h
        where h.finished_at > %(now)s - 86400000 and h.leased_at > %(now)s - 86400000 and
            h.outcome = 1
    ) d
    join turnabout.queue q on q.id = d.queue_id
    join turnabout.channel c on c.queue_id = d.queue_id and c.name = d.channel
    where coalesce(c.rate_count, q.rate_count) is not null and d.leased_at > %(now)s - case
        when c.rate_count is null then q.rate_period_ms else c.rate_period_ms end
    group by d.queue_id, d.channel, c.rate_count, c.rate_burst, q.rate_count, q.rate_burst
    having count(*) > case when c.rate_count is null then q.rate_count + q.rate_burst else
        c.rate_count + c.rate_burst end
) over_limit;

-- name: bounds
-- Queues and channels that hold more than they may.
select (
    select count(*)
    from (
        select 1
        from turnabout.message m
        join turnabout.queue q on q.id = m.queue_id
        where q.max_messages is not null and m.id > 0
        group by q.id, q.max_messages
        having count(*) > q.max_messages
    ) full_queue
) + (
    select count(*)
    from (
        select 1
        from turnabout.message m
        join turnabout.queue q on q.id = m.queue_id
        join turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel
        where coalesce(c.max_size, q.max_size) is not null and m.id > 0
        group by q.id, c.name, c.max_size, q.max_size
        having count(*) > coalesce(c.max_size, q.max_size)
    ) full_channel
);

-- name: one lease
-- Messages that are there twice.
select count(*)
from (
    select 1
    from turnabout.message m
    group by m.id
    having count(*) > 1
) twice;

-- name: charges
-- Messages charged more often than they were delivered.
select (
    select count(*)
    from turnabout.message m
    where m.failures + m.crashes > m.attempt - case when m.status = 2 then 1 else 0 end
) + (
    select count(*)
    from turnabout.history h
    where h.finished_at > %(now)s - 3600000 and h.failures + h.crashes > h.attempt
);

-- name: early
-- What is ready, was leased or was fired before it was due.
select (
    select count(*)
    from turnabout.message m
    join turnabout.queue q on q.id = m.queue_id
    where m.status = 0 and m.at > %(now)s + 60000 and not q.fifo and m.id > 0
) + (
    select count(*)
    from (
        select e.kind, e.at, lag(e.kind) over (partition by e.queue_id, e.message_id order
            by e.seq) as before, lag(e.due_at) over (partition by e.queue_id, e.message_id
            order by e.seq) as due_at
        from turnabout.event e
        where e.at > %(now)s - 3600000
    ) noted
    where noted.kind = 'leased' and noted.before in ('created', 'deferred', 'failed') and
        noted.due_at > noted.at + 1000
) + (
    select count(*)
    from turnabout.schedule s
    where s.last_at > %(now)s + 60000
);

-- name: keys
-- Dedup keys that stand for two messages.
select count(*)
from (
    select 1
    from turnabout.dedup d
    group by d.queue_id, d.scope, d.key
    having count(*) > 1
) twice;

-- name: cancelled
-- Messages that wait although they were cancelled while leased.
select count(*)
from turnabout.message
where cancel_requested and status < 2;

-- name: expiry
-- Messages that wait beyond their time to live.
select count(*)
from turnabout.message m
where m.expires_at < %(now)s - 60000 and m.status < 2 and m.id > 0;

-- name: exhausted
-- Messages without attempts left that hold their FIFO channel.
select count(*)
from turnabout.message
where status < 2 and at >= 9000000000000000;

-- name: dead letters
-- Queues whose dead-letter queue is gone.
select count(*)
from turnabout.queue q
where q.dead_letter is not null
and not exists (
    select 1
    from turnabout.queue d
    where d.name = q.dead_letter
);

-- name: dedup
-- Dedup entries of no queue.
select count(*)
from turnabout.dedup d
where not exists (
    select 1
    from turnabout.queue q
    where q.id = d.queue_id
);

-- name: schedules
-- Schedules overdue by two minutes.
select count(*)
from turnabout.schedule s
where not s.paused and s.next_at < %(now)s - 120000;

-- name: redrives
-- Redrives that run from a queue that is gone.
select count(*)
from turnabout.redrive r
where r.state = 'running'
and not exists (
    select 1
    from turnabout.queue q
    where q.id = r.queue_id
);

-- name: retention
-- Queues that keep history a day longer than they should.
select count(*)
from turnabout.queue q
where exists (
    select 1
    from turnabout.history h
    where h.queue_id = q.id and h.finished_at < %(now)s - 86400000 - case when
        coalesce(q.history_failed_ms, 0) > q.history_ms then q.history_failed_ms else
        q.history_ms end
);

-- name: events
-- Events older than two days.
select count(*)
from turnabout.event e
where e.at < %(now)s - 172800000;

-- name: head marks
-- Ready messages that a head mark has hidden for a minute.
select count(*)
from turnabout.message m
where m.id > 0 and m.status = 0 and not m.limited and m.sent_at < %(now)s - 60000 and exists (
    select 1
    from turnabout.message b
    where b.queue_id = m.queue_id and b.id < 0 and b.channel = m.channel and b.priority =
        m.priority and b.at > m.id and b.sent_at < %(now)s - 60000
    and not exists (
        select 1
        from turnabout.message n
        where n.queue_id = b.queue_id and n.id < b.id and n.channel = b.channel and
            n.priority = b.priority
    )
);

-- name: days
-- History of the last day that has no partition of its own.
select count(*)
from turnabout.history_default h
where h.finished_at > %(now)s - 86400000;
