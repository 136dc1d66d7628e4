-- Doctor: what must agree, and what must not be. Most statements count, and are named as their
-- check. Entries of `ready` with negative ids are head marks, and no messages.

-- name: role settings
-- Settings that our calls meet behind a pooler, and in the transactions of callers.
select name, current_setting(name) from pg_settings
where name = 'default_transaction_isolation' and setting <> 'read committed'
  or name in ('statement_timeout', 'lock_timeout', 'transaction_timeout',
    'idle_in_transaction_session_timeout') and setting::bigint between 1 and 9999
  or (name, setting) in (('default_transaction_read_only', 'on'), ('array_nulls', 'off'))
  or name = 'restrict_nonsystem_relation_kind' and setting <> ''
order by name;

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
select q.name, q.paused, coalesce(t.sent, 0)::bigint, coalesce(t.finished, 0)::bigint,
  coalesce(m.live, 0), coalesce(l.overdue, 0), r.oldest
from turnabout.queue q
left join (
  select queue_id, sent, done + dead + cancelled + expired as finished
  from turnabout.counts_of((select array_agg(o.id) from turnabout.queue o))
) t on t.queue_id = q.id
left join (
  select queue_id, count(*) as live from turnabout.message group by queue_id
) m on m.queue_id = q.id
left join (
  select queue_id, count(*) as overdue
  from turnabout.leased_messages((select array_agg(o.id) from turnabout.queue o))
  where until < %(now)s - %(overdue_ms)s group by queue_id
) l on l.queue_id = q.id
left join (
  select r.queue_id, min(m.sent_at) as oldest
  from turnabout.ready r join turnabout.message m on m.id = r.id
  where coalesce(r.at, 0) <= %(now)s group by r.queue_id
) r on r.queue_id = q.id
order by q.name;

-- name: no queue
-- Messages of no queue, but for those that are swept when transactions of before its end are over.
select count(*) from turnabout.message m
where not exists (select from turnabout.queue q where q.id = m.queue_id)
  and not exists (select from turnabout.recent_change c where c.queue_id = m.queue_id);

-- name: no channel
-- Ready messages on the limited side, whose channel has neither a row nor a wake that makes one.
select count(*) from turnabout.ready r
where r.limited
  and not exists (
    select from turnabout.channel c where c.queue_id = r.queue_id and c.name = r.channel)
  and not exists (
    select from turnabout.wake w where w.queue_id = r.queue_id and w.channel = r.channel);

-- name: asleep
-- Channels asleep until something happens, whose head could go, and nothing under way that could
-- wake them. (A blocked head waits for a person.)
select count(*) from turnabout.channel c join turnabout.queue q on q.id = c.queue_id
where not c.awake and c.wake_at is null and not c.paused and not q.paused
  and (
    select coalesce(r.at, 0) < 9000000000000000 from turnabout.ready r
    where r.queue_id = c.queue_id and r.limited and r.channel = c.name
      and (r.expires_at is null or r.expires_at > %(now)s)
    order by r.priority, r.id limit 1)
  and not exists (
    select from turnabout.slot s join turnabout.message m
      on m.id = s.id and m.attempt = s.attempt - 1
    where s.queue_id = c.queue_id and s.channel = c.name)
  and not exists (
    select from turnabout.wake w where w.queue_id = c.queue_id and w.channel = c.name);

-- name: unlogged tables
-- 1 if they are empty since a crash of the server, and have not been rebuilt yet.
select count(*) from (select 1 where not exists (select from turnabout.whole)) empty;

-- name: orphans
-- Messages that stand nowhere: neither ready, nor scheduled, nor leased.
select count(*) from turnabout.message m where exists (select from turnabout.whole)
and not exists (
    select 1 from turnabout.ready r
    where r.id = m.id and r.queue_id = m.queue_id and r.channel = m.channel and
        r.priority = m.priority
)
and not exists (
    select 1 from turnabout.scheduled s
    where s.id = m.id and s.queue_id = m.queue_id and s.at = m.at
)
and not exists (
    select 1 from turnabout.leased_messages((select array_agg(q.id) from turnabout.queue q)) l
    where l.id = m.id
);

-- name: entries
-- Places that no message stands in.
select (
    select count(*) from turnabout.ready r
    where r.id > 0 and not exists (
        select 1 from turnabout.message m
        where m.id = r.id and m.queue_id = r.queue_id and m.channel = r.channel and
            m.priority = r.priority
    )
) + (
    select count(*) from turnabout.scheduled s
    where not exists (
        select 1 from turnabout.message m
        where m.id = s.id and m.queue_id = s.queue_id and m.at = s.at
    )
);

-- name: endings
-- Messages that have ended, and are here. (No redrive takes another ending than `dead` back.)
select count(*) from turnabout.message m
join turnabout.history h on h.id = m.id and h.queue_id = m.queue_id where h.outcome <> 2;

-- name: one ending
-- Messages of the last hour that have ended twice; a redriven one may die again.
select count(*) from (
    select 1 from turnabout.history h where h.finished_at > %(now)s - 3600000 and h.outcome <> 2
    group by h.queue_id, h.id
    having count(*) > 1
) twice;

-- name: order
-- FIFO channels with more than one lease. (One may be of a run.)
select count(*) from (
    select 1
    from turnabout.leased_messages((select array_agg(q.id) from turnabout.queue q where q.fifo)) l
    group by l.queue_id, l.channel
    having count(distinct l.lease) > 1
) two;

-- name: slots
-- Channels and queues with more leases than slots.
select count(*) from (
    select 1 from turnabout.leased_messages((select array_agg(o.id) from turnabout.queue o)) l
    join turnabout.queue q on q.id = l.queue_id where l.until > %(now)s
    group by q.id having count(*) > q.queue_max_concurrency
    union all
    select 1 from turnabout.leased_messages((select array_agg(o.id) from turnabout.queue o)) l
    join turnabout.queue q on q.id = l.queue_id
    left join turnabout.channel c on c.queue_id = l.queue_id and c.name = l.channel
    where l.until > %(now)s
    group by l.queue_id, l.channel, coalesce(c.max_concurrency, q.max_concurrency)
    having count(*) > coalesce(c.max_concurrency, q.max_concurrency)
) over_limit;

-- name: rates
-- Channels that were handed out faster than their rate, by what is leased or done.
select count(*) from (
    select 1 from (
        select l.queue_id, l.channel, l.leased_at
        from turnabout.leased_messages((select array_agg(o.id) from turnabout.queue o)) l
        union all
        select h.queue_id, h.channel, h.leased_at from turnabout.history h
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
    select count(*) from (
        select 1 from turnabout.message m
        join turnabout.queue q on q.id = m.queue_id where q.max_messages is not null
        group by q.id, q.max_messages
        having count(*) > q.max_messages
    ) full_queue
) + (
    select count(*) from (
        select 1 from turnabout.message m
        join turnabout.queue q on q.id = m.queue_id
        join turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel
        where coalesce(c.max_size, q.max_size) is not null
        group by q.id, c.name, c.max_size, q.max_size
        having count(*) > coalesce(c.max_size, q.max_size)
    ) full_channel
);

-- name: one lease
-- Messages that are there twice, or stand in two places.
select (
    select count(*) from (select 1 from turnabout.message m group by m.id having count(*) > 1) twice
) + (
    select count(*) from (
        select 1 from (
            select r.id from turnabout.ready r where r.id > 0
            union all
            select s.id from turnabout.scheduled s
            union all
            select l.id
            from turnabout.leased_messages((select array_agg(q.id) from turnabout.queue q)) l
        ) place
        group by place.id
        having count(*) > 1
    ) two_places
);

-- name: charges
-- Messages charged more often than they were delivered.
select (select count(*) from turnabout.message m where m.failures + m.crashes > m.attempt) + (
    select count(*) from turnabout.history h
    where h.finished_at > %(now)s - 3600000 and h.failures + h.crashes > h.attempt
);

-- name: early
-- What is ready, was leased or was fired before it was due.
select (
    select count(*) from turnabout.ready r
    join turnabout.message m on m.id = r.id
    join turnabout.queue q on q.id = r.queue_id where m.at > %(now)s + 60000 and not q.fifo
) + (
    select count(*) from (
        select e.kind, e.at, lag(e.kind) over (partition by e.queue_id, e.message_id order
            by e.seq) as before, lag(e.due_at) over (partition by e.queue_id, e.message_id
            order by e.seq) as due_at
        from turnabout.event e where e.at > %(now)s - 3600000
    ) noted
    where noted.kind = 'leased' and noted.before in ('created', 'deferred', 'failed') and
        noted.due_at > noted.at + 1000
) + (select count(*) from turnabout.schedule s where s.last_at > %(now)s + 60000);

-- name: keys
-- Dedup keys that stand for two messages.
select count(*) from (
    select 1 from turnabout.dedup d group by d.queue_id, d.scope, d.key having count(*) > 1
) twice;

-- name: cancelled, expiry
-- Messages that wait although they were cancelled while leased, or beyond their time to live.
select count(*) from turnabout.message m
where m.id in (select r.id from turnabout.ready r union all select s.id from turnabout.scheduled s)
  and m.cancel_requested  -- only: cancelled
  and m.expires_at < %(now)s - 60000  -- only: expiry
;

-- name: exhausted
-- Messages without attempts left that hold their FIFO channel.
select count(*) from turnabout.message where at >= 9000000000000000;

-- name: dead letters
-- Queues whose dead-letter queue is gone.
select count(*) from turnabout.queue q where q.dead_letter is not null
and not exists (select 1 from turnabout.queue d where d.name = q.dead_letter);

-- name: dedup
-- Dedup entries of no queue.
select count(*) from turnabout.dedup d
where not exists (select 1 from turnabout.queue q where q.id = d.queue_id);

-- name: schedules
-- Schedules overdue by two minutes.
select count(*) from turnabout.schedule s where not s.paused and s.next_at < %(now)s - 120000;

-- name: redrives
-- Redrives that run from a queue that is gone.
select count(*) from turnabout.redrive r where r.state = 'running'
and not exists (select 1 from turnabout.queue q where q.id = r.queue_id);

-- name: retention
-- Queues that keep history a day longer than they should.
select count(*) from turnabout.queue q
where exists (
    select 1 from turnabout.history h
    where h.queue_id = q.id and h.finished_at < %(now)s - 86400000 - case when
        coalesce(q.history_failed_ms, 0) > q.history_ms then q.history_failed_ms else
        q.history_ms end
);

-- name: events
-- Events older than two days.
select count(*) from turnabout.event e where e.at < %(now)s - 172800000;

-- name: head marks
-- Ready messages, sent a minute ago or earlier, that a head mark hides: the newest of its run.
select count(*) from (
    select distinct on (b.queue_id, b.channel, b.priority) b.* from turnabout.ready b where b.id < 0
    order by b.queue_id, b.channel, b.priority, b.id
) mark
join turnabout.ready r on r.queue_id = mark.queue_id and not r.limited and
    r.channel = mark.channel and r.priority = mark.priority and r.id > 0 and r.id < mark.at
join turnabout.message m on m.id = r.id where m.sent_at < %(now)s - 60000;

-- name: days
-- History of the last day that has no partition of its own.
select count(*) from turnabout.history_default h where h.finished_at > %(now)s - 86400000;

-- name: to maintain
-- Queues, of those that there have been for long.
select q.name from turnabout.queue q order by q.id limit 20;
