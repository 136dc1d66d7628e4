-- The tables of the core: docs/design/scheduling.md and docs/design/life.md say what they mean.
-- Times are milliseconds since 1970, unless a name ends in _us.

-- The latest time that the file has seen, in one row: no process goes on from an earlier one. And
-- how many ids of messages queues have taken, a block at a time.
create table turnabout_clock (
  id integer primary key, latest_ms integer not null, ids_taken integer not null default 0
) strict;
insert into turnabout_clock (id, latest_ms) values (1, 0);

-- A queue: settings, default policy, and counts of what was sent and how it ended.
create table turnabout_queue (
  id integer primary key autoincrement,
  name text not null unique, created_at integer not null,
  modified_at integer not null,  -- the last change of its settings
  lease_ms integer not null, max_attempts integer, max_deliveries integer,
  backoff_ms integer not null, backoff_max_ms integer not null,
  backoff_jitter_percent integer not null, delay_ms integer not null, fifo integer not null,
  fifo_run integer not null, paused integer not null, pause_reason text,
  on_exhausted text not null default 'dead_letter',
  dead_letter text,          -- as the settings say; null: the default
  dead_letter_id integer,    -- where dead messages really go; null: nowhere
  ttl_ms integer, max_messages integer, queue_max_concurrency integer,
  dedup_mode text not null default 'window', dedup_window_ms integer not null default 300000,
  dedup_scope text not null default 'queue', history_ms integer not null, history_failed_ms integer,
  history_payload integer not null default 0, events text not null default 'off',
  queue_rate_count integer, queue_rate_period_ms integer, queue_rate_burst integer,
  queue_rate_interval_us integer, max_concurrency integer, rate_count integer,
  rate_period_ms integer, rate_burst integer, rate_interval_us integer, max_size integer,
  weight integer,
  labels text,  -- as JSON; null: none
  -- Its block of ids: where it begins and ends, and up to where messages may have ended or moved.
  -- sent: what was sent before that block.
  ids_after integer not null default 0, ids_until integer not null default 0,
  last_id integer not null default 0,
  -- Whether messages of other queues came here: by their ids, it does not show who was sent first.
  mixed integer not null default 0, sent integer not null default 0,
  done integer not null default 0, dead integer not null default 0,
  cancelled integer not null default 0,  -- the expired ones among them
  expired integer not null default 0,
  -- Another number after each change of settings, so that they need not be read each time. A random
  -- one: no rollback takes it back.
  version integer not null default 0,
  -- Up to where the sweep has removed the history of done messages; others may stay for longer.
  swept integer not null default 0,
  -- Of a queue with limits of its own: its live leases, and its bucket, as a channel's.
  queue_leased integer not null default 0, queue_tat_us integer not null default 0
) strict;

create index turnabout_queue_by_dead_letter on turnabout_queue (dead_letter_id)
  where dead_letter_id is not null;

-- The part before the slash of a stored name, '' without one. An expression of its own, so that a
-- namespace's rows are found without a look at all others, those without a namespace as well.
create index turnabout_queue_namespace
  on turnabout_queue (substr(name, 1, max(instr(name, '/'), 1) - 1), name);

create trigger turnabout_queue_version after update of
  name, lease_ms, max_attempts, max_deliveries, backoff_ms, backoff_max_ms, backoff_jitter_percent,
  delay_ms, fifo, fifo_run, paused, pause_reason, on_exhausted, dead_letter, dead_letter_id, ttl_ms,
  max_messages, queue_max_concurrency, dedup_mode, dedup_window_ms, dedup_scope, history_ms,
  history_failed_ms, history_payload, events,
  queue_rate_count, queue_rate_period_ms, queue_rate_burst, queue_rate_interval_us,
  max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight,
  labels, modified_at
on turnabout_queue begin
  update turnabout_queue set version = random() where id = new.id;
end;

-- An unfinished message. status: 0 ready, 1 scheduled, 2 leased. `at`: when a scheduled one is
-- due, when a lease runs out, when a held message of a FIFO queue may go; else 0. limited: it
-- belongs to a channel with a row. The payload comes last, so that no other column is read past it.
create table turnabout_message (
  id integer primary key, queue_id integer not null, status integer not null,
  limited integer not null, at integer not null, attempt integer not null default 0,
  delivered_before integer,  -- of these, before it came into the queue or was retried; null: none
  channel text not null, priority integer not null, failures integer not null default 0,
  crashes integer not null default 0, sent_at integer not null, leased_at integer,
  expires_at integer, cancel_requested integer not null default 0,
  errors text,  -- of its attempts, as JSON: [{"attempt", "at", "error"}]
  last_error text, origin text,
  note text,  -- of its last worker, as JSON: {"text", "progress"}
  state blob, headers text, content_type text not null, payload blob not null
) strict;

-- What a queue has given: its last id, and how many messages. A send writes to no row but its
-- message's, as its ids follow one another: the last one is the largest of the block that is still
-- there, or `last_id`, which every verb that takes messages away keeps up to date where it counts
-- them. So no id is used twice, and a stale receipt stays stale.
create view turnabout_given (queue_id, version, ids_until, last_id, sent) as
select id, version, ids_until, last, sent + last - ids_after from (
  select *, max(last_id, ifnull((
    select id from turnabout_message where id <= ids_until order by id desc limit 1
  ), 0)) as last
  from turnabout_queue
);

-- The skip scan over channels without limits. (What its condition says is in it as well, so that it
-- can be walked without a look at each message: SQLite checks the condition again.)
create index turnabout_message_ready
  on turnabout_message (queue_id, channel, priority, id, status, limited)
  where status = 0 and limited = 0;

-- Heads of channels with a row.
create index turnabout_message_limited
  on turnabout_message (queue_id, channel, status, priority, id, at, limited)
  where limited = 1;

-- What is due, which leases have run out, and what a FIFO queue holds back.
create index turnabout_message_timer on turnabout_message (queue_id, status, at) where at > 0;

-- Scheduled messages of one channel, to count them when the channel gets a row.
create index turnabout_message_scheduled on turnabout_message (queue_id, channel) where status = 1;

-- (Of leased ones, too: an index that names the status is looked at whenever that changes.)
create index turnabout_message_expiry on turnabout_message (queue_id, expires_at)
  where expires_at is not null;

-- All messages of a queue, by these indexes alone: one of its own would be a page more for each
-- send and each ack.
create view turnabout_place (queue_id, id) as
select queue_id, id from turnabout_message indexed by turnabout_message_ready
where status = 0 and limited = 0
union all
select queue_id, id from turnabout_message indexed by turnabout_message_limited where limited = 1
union all
select queue_id, id from turnabout_message indexed by turnabout_message_timer
where at > 0 and limited = 0;

-- What programs without the library have to send, until the next receive, maintenance or stats
-- sends it. Only types are checked here. (No id of its own: an insert need not name the columns.)
create table turnabout_inbox (
  queue text not null,
  payload any not null check (typeof(payload) = 'text' or typeof(payload) = 'blob'),
  channel text, priority integer, delay_seconds real, headers text, content_type text,
  ttl_seconds real, dedup_key text, dedup_mode text, dedup_window_seconds real, dedup_scope text,
  due_at integer,
  created_at any  -- as in SMQ's inserts: a message has the time of its send
) strict;

-- Rows of it that could not be sent, as they were, until a person deletes them.
create table turnabout_inbox_refused (
  id integer primary key, refused_at integer not null, reason text not null,
  queue text not null, payload any not null, channel text, priority integer, delay_seconds real,
  headers text, content_type text, ttl_seconds real, dedup_key text, dedup_mode text,
  dedup_window_seconds real, dedup_scope text, due_at integer, created_at any
) strict;

-- A limited channel: its own policy (null: the queue's default holds), its counts, its bucket.
-- wake_at: 0 awake; later: asleep until then; null: asleep until something happens to it.
create table turnabout_channel (
  queue_id integer not null, name text not null, max_concurrency integer, rate_count integer,
  rate_period_ms integer, rate_burst integer, rate_interval_us integer, max_size integer,
  weight integer, paused integer not null default 0, paused_until integer, pause_reason text,
  size integer not null default 0,      -- unfinished messages
  leased integer not null default 0,    -- of these, leased
  tat_us integer not null default 0,    -- theoretical arrival time of the next delivery
  depth_us integer not null default 0,  -- of that bucket: its burst times its interval
  wake_at integer,
  primary key (queue_id, name)
) strict, without rowid;

create index turnabout_channel_awake on turnabout_channel (queue_id, name) where wake_at = 0;

create index turnabout_channel_timer on turnabout_channel (queue_id, wake_at) where wake_at > 0;

-- Rows that only a default policy or FIFO made and that nobody needs any more.
create index turnabout_channel_idle on turnabout_channel (queue_id, tat_us)
  where size = 0 and paused = 0 and max_concurrency is null and rate_count is null
    and max_size is null and weight is null;

-- A finished message. seq is its place in the order of finishing within the queue. An id can be
-- here twice: dead in one queue, later done in its dead-letter queue.
create table turnabout_history (
  queue_id integer not null, seq integer not null, id integer not null, channel text not null,
  -- (`in (…)` builds a set for each row, and doubles the time of an insert.)
  outcome text not null
    check (outcome = 'done' or outcome = 'dead' or outcome = 'cancelled' or outcome = 'expired'),
  attempt integer not null, failures integer not null, crashes integer not null,
  sent_at integer not null, leased_at integer, finished_at integer not null, error text,
  result blob, result_type text, payload blob, content_type text, headers text, note text,
  primary key (queue_id, seq)
) strict, without rowid;

-- How a message ended.
create index turnabout_history_id on turnabout_history (id);

-- What did not end well: fewer rows, looked for more often, and kept for another time.
create index turnabout_history_failed on turnabout_history (queue_id, finished_at)
  where outcome <> 'done';

-- Up to where something was removed from the history of a queue, so that a reader of the log is
-- told what it missed. A row outlives its queue.
create table turnabout_log_floor (queue_id integer primary key, seq integer not null) strict;

-- Dedup entries. scope: '' for the queue, '/' and the name for a channel. until_ms is null where
-- the life of the message decides.
create table turnabout_dedup (
  queue_id integer not null, scope text not null, key text not null, message_id integer not null,
  until_ms integer,
  primary key (queue_id, scope, key)
) strict, without rowid;

create index turnabout_dedup_sweep on turnabout_dedup (queue_id, until_ms, message_id);

-- Events, of queues that want all of them; only inserted, swept after a day.
create table turnabout_event (
  seq integer primary key autoincrement,  -- no number is used twice: a cursor must stay behind
  queue_id integer not null, at integer not null, message_id integer not null, due_at integer,
  attempt integer not null, kind text not null, channel text not null, note text
) strict;

create index turnabout_event_order on turnabout_event (queue_id);

-- Redrives, running and ended. last_id: the last message looked at.
create table turnabout_redrive (
  id integer primary key autoincrement,
  queue_id integer not null, queue text not null, target text, channel text, died_from integer,
  died_until integer, error text,
  ids text,                   -- JSON; null: all
  started_by text, per_second integer, max_redrives integer not null, state text not null,
  moved integer not null default 0, skipped integer not null default 0,
  last_id integer not null default 0, created_at integer not null, finished_at integer,
  next_at integer             -- before that, its rate allows no other step
) strict;

create index turnabout_redrive_running on turnabout_redrive (queue_id) where state = 'running';
create index turnabout_redrive_of_queue on turnabout_redrive (queue);
create index turnabout_redrive_namespace
  on turnabout_redrive (substr(queue, 1, max(instr(queue, '/'), 1) - 1));

-- Schedules. template: the message to send, without its payload.
create table turnabout_schedule (
  name text primary key, queue text not null, template text not null, cron text, zone text not null,
  every_ms integer, anchor integer not null, at integer, missed text not null,
  overlap text not null, gap text not null, fold text not null, paused integer not null,
  next_at integer, last_at integer, last_id integer, sent integer not null default 0,
  refused integer not null default 0, payload blob not null
) strict;

create index turnabout_schedule_due on turnabout_schedule (next_at) where next_at is not null;
create index turnabout_schedule_namespace
  on turnabout_schedule (substr(name, 1, max(instr(name, '/'), 1) - 1), name);

-- What workers say of themselves, as JSON, for those who look. A queue is known by its name.
create table turnabout_worker (
  queue text not null, worker text not null, seen_at integer not null, state text not null,
  primary key (queue, worker)
) strict, without rowid;

create index turnabout_worker_seen on turnabout_worker (seen_at);
