-- What the whole life of a message needs: dedup, endings with results, time to live, cancel,
-- redrive, events, schedules. What they mean: docs/design/life.md.
-- oldest: 2

alter table queue add pause_reason text;
alter table queue add on_exhausted text not null default 'dead_letter';
alter table queue add ttl_ms integer;
alter table queue add max_messages integer;
alter table queue add dedup_mode text not null default 'window';
alter table queue add dedup_window_ms integer not null default 300000;
alter table queue add dedup_scope text not null default 'queue';
alter table queue add history_failed_ms integer;
alter table queue add history_payload integer not null default 0;
alter table queue add events text not null default 'off';
-- `cancelled` counts these, too: a library that does not know of them goes on counting right.
alter table queue add expired integer not null default 0;
-- Another number after each change of settings, so that they need not be read each time. A random
-- one: no rollback takes it back.
alter table queue add version integer not null default 0;
-- Up to where the sweep has removed the history of done messages; others may stay for longer.
alter table queue add swept integer not null default 0;

create trigger queue_version after update of
  name, lease_ms, max_attempts, backoff_ms, backoff_max_ms, backoff_jitter_percent, delay_ms, fifo,
  paused, pause_reason, on_exhausted, dead_letter, dead_letter_id, ttl_ms, max_messages, dedup_mode,
  dedup_window_ms, dedup_scope, history_ms, history_failed_ms, history_payload, events,
  max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight
on queue begin
  update queue set version = random() where id = new.id;
end;

-- Null, 0 and 1 stand in the head of a row: to read them, the payload before them is not read.
alter table message add expires_at integer;
alter table message add cancel_requested integer not null default 0;

-- (Of leased ones, too: an index that names the status is looked at whenever that changes.)
create index message_expiry on message (queue_id, expires_at) where expires_at is not null;

alter table channel add pause_reason text;

-- The history, as before, with what a message left. SQLite cannot change a check, so the rows move.
alter table history rename to history_before;

create table history (
  queue_id integer not null,
  seq integer not null,
  id integer not null,
  channel text not null,
  -- (`in (…)` builds a set for each row, and doubles the time of an insert.)
  outcome text not null
    check (outcome = 'done' or outcome = 'dead' or outcome = 'cancelled' or outcome = 'expired'),
  attempt integer not null,
  failures integer not null,
  crashes integer not null,
  sent_at integer not null,
  leased_at integer,
  finished_at integer not null,
  error text,
  result blob,
  result_type text,
  payload blob,
  content_type text,
  headers text,
  primary key (queue_id, seq)
) strict, without rowid;

insert into history (
  queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at, leased_at,
  finished_at, error
)
select queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at, leased_at,
  finished_at, error
from history_before;

drop table history_before;

-- How a message ended.
create index history_id on history (id);

-- What did not end well: fewer rows, looked for more often, and kept for another time.
create index history_failed on history (queue_id, finished_at) where outcome <> 'done';

-- Dedup entries. scope: '' for the queue, '/' and the name for a channel. until_ms is null where
-- the life of the message decides.
create table dedup (
  queue_id integer not null,
  scope text not null,
  key text not null,
  message_id integer not null,
  until_ms integer,
  primary key (queue_id, scope, key)
) strict, without rowid;

create index dedup_sweep on dedup (queue_id, until_ms, message_id);

-- Events, of queues that want all of them; only inserted, swept after a day.
create table event (
  seq integer primary key autoincrement,  -- no number is used twice: a cursor must stay behind
  queue_id integer not null,
  at integer not null,
  message_id integer not null,
  due_at integer,
  attempt integer not null,
  kind text not null,
  channel text not null
) strict;

create index event_order on event (queue_id);

-- Redrives, running and ended. last_id: the last message looked at.
create table redrive (
  id integer primary key autoincrement,
  queue_id integer not null,
  queue text not null,
  target text,
  channel text,
  died_from integer,
  died_until integer,
  error text,
  per_second integer,
  max_redrives integer not null,
  state text not null,
  moved integer not null default 0,
  skipped integer not null default 0,
  last_id integer not null default 0,
  created_at integer not null,
  finished_at integer,
  next_at integer             -- before that, its rate allows no other step
) strict;

create index redrive_running on redrive (queue_id) where state = 'running';

create index redrive_of_queue on redrive (queue);

-- Schedules. template: the message to send, without its payload.
create table schedule (
  name text primary key,
  queue text not null,
  template text not null,
  cron text,
  zone text not null,
  every_ms integer,
  anchor integer not null,
  at integer,
  missed text not null,
  overlap text not null,
  gap text not null,
  fold text not null,
  paused integer not null,
  next_at integer,
  last_at integer,
  last_id integer,
  sent integer not null default 0,
  payload blob not null
) strict;

create index schedule_due on schedule (next_at) where next_at is not null;
