-- A file as the first version left it, with data made by it at the instant 1800000000000 (printed by
-- Python's iterdump).
pragma application_id = 1414877774;
pragma user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE channel (
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
INSERT INTO "channel" VALUES(1,'shop-1',1,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,0,0);
INSERT INTO "channel" VALUES(3,'a',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,3,1,0,NULL);
CREATE TABLE history (
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
INSERT INTO "history" VALUES(1,1,1,'shop-0','done',1,0,0,1800000000000,1800000000000,1800000000000,NULL);
INSERT INTO "history" VALUES(1,2,5,'shop-1','dead',1,1,0,1800000000000,1800000000000,1800000000000,'boom');
CREATE TABLE message (
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
INSERT INTO "message" VALUES(2,1,0,1,0,0,'shop-1',1,0,0,1800000000000,NULL,NULL,NULL,NULL,NULL,'{"trace": "1"}','application/json',X'7B226E223A317D');
INSERT INTO "message" VALUES(3,1,1,0,1800000001000,1,'shop-2',0,1,0,1800000000000,1800000000000,'once','once',NULL,NULL,NULL,'application/json',X'7B226E223A327D');
INSERT INTO "message" VALUES(4,1,1,0,1800000005000,1,'shop-0',1,0,0,1800000000000,1800000000000,NULL,NULL,NULL,X'68616C66','{"trace": "3"}','application/json',X'7B226E223A337D');
INSERT INTO "message" VALUES(5,2,0,0,0,1,'shop-1',0,0,0,1800000000000,NULL,NULL,NULL,'{"queue": "orders", "reason": "refused", "failures": 1, "crashes": 0, "died_at": 1800000000000, "first_error": "boom", "last_error": "boom"}',NULL,NULL,'application/json',X'7B226E223A347D');
INSERT INTO "message" VALUES(6,1,2,0,1800000030000,1,'shop-2',1,0,0,1800000000000,1800000000000,NULL,NULL,NULL,NULL,'{"trace": "5"}','application/json',X'7B226E223A357D');
INSERT INTO "message" VALUES(7,1,1,0,1800000060000,0,'',0,0,0,1800000000000,NULL,NULL,NULL,NULL,NULL,NULL,'text/plain; charset=utf-8',X'6C61746572');
INSERT INTO "message" VALUES(8,3,2,1,1800000030000,1,'a',0,0,0,1800000000000,1800000000000,NULL,NULL,NULL,NULL,NULL,'text/plain; charset=utf-8',X'30');
INSERT INTO "message" VALUES(9,3,0,1,0,0,'a',0,0,0,1800000000000,NULL,NULL,NULL,NULL,NULL,NULL,'text/plain; charset=utf-8',X'31');
INSERT INTO "message" VALUES(10,3,0,1,0,0,'a',0,0,0,1800000000000,NULL,NULL,NULL,NULL,NULL,NULL,'text/plain; charset=utf-8',X'32');
CREATE TABLE queue (
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
INSERT INTO "queue" VALUES(1,'orders',1800000000000,30000,2,1000,3600000,0,0,0,0,NULL,2,604800000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,7,1,1,0);
INSERT INTO "queue" VALUES(2,'orders-dead',1800000000000,30000,NULL,1000,3600000,10,0,0,0,NULL,NULL,604800000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,0);
INSERT INTO "queue" VALUES(3,'fifo',1800000000000,30000,5,1000,3600000,10,0,1,0,NULL,4,604800000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,3,0,0,0);
INSERT INTO "queue" VALUES(4,'fifo-dead',1800000000000,30000,NULL,1000,3600000,10,0,0,0,NULL,NULL,604800000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0);
CREATE INDEX queue_by_dead_letter on queue (dead_letter_id) where dead_letter_id is not null;
CREATE INDEX message_ready on message (queue_id, channel, priority)
  where status = 0 and limited = 0;
CREATE INDEX message_limited on message (queue_id, channel, status, priority, id, at)
  where limited = 1;
CREATE INDEX message_timer on message (queue_id, status, at) where at > 0;
CREATE INDEX message_scheduled on message (queue_id, channel) where status = 1;
CREATE INDEX message_of_queue on message (queue_id);
CREATE INDEX channel_awake on channel (queue_id, name) where wake_at = 0;
CREATE INDEX channel_timer on channel (queue_id, wake_at) where wake_at > 0;
CREATE INDEX channel_idle on channel (queue_id, tat_us)
  where size = 0 and paused = 0 and max_concurrency is null and rate_count is null
    and max_size is null and weight is null;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('queue',4);
INSERT INTO "sqlite_sequence" VALUES('message',10);
COMMIT;
