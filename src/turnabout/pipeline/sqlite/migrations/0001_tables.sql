-- Subscriptions, staged messages and the log, for pipelines: docs/design/pipeline.md.

-- Who leases by the batch. generation: of the reader that has it, from a counter of its own, so
-- that one that was forgotten and made again knows no older readers.
create table turnabout_subscription (
  id integer primary key autoincrement,
  name text not null unique,
  owner text not null,
  generation integer not null,
  epoch integer not null default 0,
  acked integer not null default 0,
  max_messages integer,               -- while a failing epoch is isolated
  queues text not null default '[]',  -- a JSON list of names
  turns text not null default '{}',   -- where each round robin goes on: {queue: [channel, served]}
  opened_at integer not null,
  seen_at integer not null
) strict;

create table turnabout_generation (last integer not null) strict;
insert into turnabout_generation values (0);

-- Epochs that are leased and not acknowledged. lease_until: up to when their leases run at least.
create table turnabout_epoch (
  subscription_id integer not null,
  epoch integer not null,
  plans integer not null default 0,
  leased_at integer not null,
  lease_until integer not null,
  primary key (subscription_id, epoch)
) strict, without rowid;

-- Their parts: messages of one queue. namespace, queue: its stored name, as the view shows it.
create table turnabout_epoch_part (
  subscription_id integer not null,
  epoch integer not null,
  part integer not null,
  queue_id integer not null,
  name text not null,
  namespace text not null,
  queue text not null,
  messages integer not null,
  primary key (subscription_id, epoch, part)
) strict, without rowid;

-- Their receipts, in order.
create table turnabout_epoch_message (
  subscription_id integer not null,
  epoch integer not null,
  part integer not null,
  place integer not null,
  message_id integer not null,
  attempt integer not null,
  primary key (subscription_id, epoch, part, place)
) strict, without rowid;

-- Messages put aside until their batch is published.
create table turnabout_stage (
  id integer primary key,
  attempt text not null,
  staged_at integer not null,
  queue text not null,
  channel text not null,
  priority integer not null,
  delay_ms integer,
  ttl_ms integer,
  dedup_key text,
  dedup_mode text,
  dedup_window_ms integer,
  dedup_scope text,
  headers text,
  content_type text not null,
  payload blob not null
) strict;

create index turnabout_stage_attempt on turnabout_stage (attempt);
create index turnabout_stage_age on turnabout_stage (staged_at);

-- Batches that were published.
create table turnabout_sink_batch (
  sink text not null,
  batch integer not null,
  messages integer not null,
  published_at integer not null,
  primary key (sink, batch)
) strict, without rowid;

-- How far archives have come.
create table turnabout_watermark (
  archive text primary key,
  position text not null,
  messages integer not null,
  set_at integer not null
) strict, without rowid;

-- For bulk reading. They show all namespaces; instants are milliseconds.

create view turnabout_log_rows as
select
  substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) as namespace,
  substr(queue.name, instr(queue.name, '/') + 1) as queue,
  history.channel,
  history.id as message_id,
  history.outcome,
  history.attempt,
  history.failures,
  history.crashes,
  history.sent_at,
  history.leased_at,
  history.finished_at,
  history.error,
  history.result,
  history.result_type,
  history.payload as value,
  history.content_type,
  history.headers,
  history.queue_id,
  history.seq
from turnabout_queue as queue
cross join turnabout_history as history on history.queue_id = queue.id;

-- A message is looked up by its key, one after another, in the order of `place`.
create view turnabout_epoch_rows as
select
  subscription.name as subscription,
  receipt.epoch,
  receipt.part,
  receipt.place,
  part.namespace,
  part.queue,
  message.channel,
  message.id as message_id,
  message.attempt,
  message.priority,
  message.failures,
  message.crashes,
  message.sent_at,
  message.leased_at,
  message.at as lease_until,
  message.payload as value,
  message.content_type,
  message.headers,
  message.state
from turnabout_subscription as subscription
cross join turnabout_epoch_part as part on part.subscription_id = subscription.id
cross join turnabout_epoch_message as receipt
  on receipt.subscription_id = part.subscription_id and receipt.epoch = part.epoch
    and receipt.part = part.part
cross join turnabout_message as message not indexed
  on message.id = receipt.message_id and message.attempt = receipt.attempt
    and message.status = 2 and message.queue_id = part.queue_id;

create view turnabout_dead_rows as
select
  substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) as namespace,
  substr(queue.name, instr(queue.name, '/') + 1) as queue,
  message.channel,
  message.id as message_id,
  json_extract(message.origin, '$.queue') as source_queue,
  json_extract(message.origin, '$.reason') as reason,
  json_extract(message.origin, '$.died_at') as died_at,
  coalesce(json_extract(message.origin, '$.failures'), message.failures) as failures,
  coalesce(json_extract(message.origin, '$.crashes'), message.crashes) as crashes,
  coalesce(json_extract(message.origin, '$.redrives'), 0) as redrives,
  json_extract(message.origin, '$.first_error') as first_error,
  json_extract(message.origin, '$.last_error') as last_error,
  message.sent_at,
  message.payload as value,
  message.content_type,
  message.headers
from turnabout_queue as queue
cross join turnabout_message as message indexed by turnabout_message_of_queue
  on message.queue_id = queue.id
where exists (select 1 from turnabout_queue as source where source.dead_letter_id = queue.id);
