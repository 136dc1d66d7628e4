-- The tables of the SQLite store. docs/design/scheduling.md says what they mean.
-- Times are milliseconds since 1970, unless a name ends in _us.

-- A queue: settings, default policy, and counts of what was sent and how it ended.
create table queue (
  id integer primary key autoincrement,
  name text not null unique,
  created_at integer not null,
  lease_ms integer not null,
  max_attempts integer,
  backoff_ms integer not null,
  backoff_max_ms integer not null,
  backoff_jitter_percent integer not null,
  delay_ms integer not null,
  fifo integer not null,
  paused integer not null,
  dead_letter text,          -- as the settings say; null: the default
  dead_letter_id integer,    -- where dead messages really go; null: nowhere
  history_ms integer not null,
  max_concurrency integer,
  rate_count integer,
  rate_period_ms integer,
  rate_burst integer,
  rate_interval_us integer,
  max_size integer,
  weight integer,
  sent integer not null default 0,
  done integer not null default 0,
  dead integer not null default 0,
  cancelled integer not null default 0
) strict;

create index queue_by_dead_letter on queue (dead_letter_id) where dead_letter_id is not null;

-- An unfinished message. status: 0 ready, 1 scheduled, 2 leased. `at`: when a scheduled one is
-- due, when a lease runs out, when a held message of a FIFO queue may go; else 0. limited: it
-- belongs to a channel with a row. The payload comes last, so that no other column is read past it.
create table message (
  id integer primary key autoincrement,  -- no id is used twice: a stale receipt must stay stale
  queue_id integer not null,
  status integer not null,
  limited integer not null,
  at integer not null,
  attempt integer not null default 0,
  channel text not null,
  priority integer not null,
  failures integer not null default 0,
  crashes integer not null default 0,
  sent_at integer not null,
  leased_at integer,
  first_error text,
  last_error text,
  origin text,
  state blob,
  headers text,
  content_type text not null,
  payload blob not null
) strict;

-- The skip scan over channels without limits. (Every index ends with the id of itself: to name it
-- would store it twice.)
create index message_ready on message (queue_id, channel, priority)
  where status = 0 and limited = 0;

-- Heads of channels with a row.
create index message_limited on message (queue_id, channel, status, priority, id, at)
  where limited = 1;

-- What is due, which leases have run out, and what a FIFO queue holds back.
create index message_timer on message (queue_id, status, at) where at > 0;

-- Scheduled messages of one channel, to count them when the channel gets a row.
create index message_scheduled on message (queue_id, channel) where status = 1;

-- All messages of a queue in order of sending, to look at, purge and delete them.
create index message_of_queue on message (queue_id);

-- A limited channel: its own policy (null: the queue's default holds), its counts, its bucket.
-- wake_at: 0 awake; later: asleep until then; null: asleep until something happens to it.
create table channel (
  queue_id integer not null,
  name text not null,
  max_concurrency integer,
  rate_count integer,
  rate_period_ms integer,
  rate_burst integer,
  rate_interval_us integer,
  max_size integer,
  weight integer,
  paused integer not null default 0,
  size integer not null default 0,      -- unfinished messages
  leased integer not null default 0,    -- of these, leased
  tat_us integer not null default 0,    -- theoretical arrival time of the next delivery
  wake_at integer,
  primary key (queue_id, name)
) strict, without rowid;

create index channel_awake on channel (queue_id, name) where wake_at = 0;

create index channel_timer on channel (queue_id, wake_at) where wake_at > 0;

-- Rows that only a default policy or FIFO made and that nobody needs any more.
create index channel_idle on channel (queue_id, tat_us)
  where size = 0 and paused = 0 and max_concurrency is null and rate_count is null
    and max_size is null and weight is null;

-- A finished message. seq is its place in the order of finishing within the queue. An id can be
-- here twice: dead in one queue, later done in its dead-letter queue.
create table history (
  queue_id integer not null,
  seq integer not null,
  id integer not null,
  channel text not null,
  -- (`in (…)` builds a set for each row, and doubles the time of an insert.)
  outcome text not null
    check (outcome = 'done' or outcome = 'dead' or outcome = 'cancelled'),
  attempt integer not null,
  failures integer not null,
  crashes integer not null,
  sent_at integer not null,
  leased_at integer,
  finished_at integer not null,
  error text,
  primary key (queue_id, seq)
) strict, without rowid;
