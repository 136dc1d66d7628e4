-- Staged messages and the log, for pipelines: docs/design/pipeline.md.

-- Messages put aside until their batch is published: some of a queue in a row, in MessagePack.
create table turnabout_stage (
  id integer primary key, attempt text not null, staged_at integer not null, queue text not null,
  messages integer not null, content blob not null
) strict;

create index turnabout_stage_attempt on turnabout_stage (attempt, queue);
create index turnabout_stage_age on turnabout_stage (staged_at);

-- Batches that were published.
create table turnabout_sink_batch (
  sink text not null, batch integer not null, messages integer not null,
  published_at integer not null,
  primary key (sink, batch)
) strict, without rowid;

-- How far archives have come.
create table turnabout_watermark (
  archive text primary key, position text not null, messages integer not null,
  set_at integer not null
) strict, without rowid;

-- For bulk reading. They show all namespaces; instants are milliseconds.

create view turnabout_log_rows as
select substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) as namespace,
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

create view turnabout_dead_rows as
select substr(queue.name, 1, max(instr(queue.name, '/'), 1) - 1) as namespace,
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
from turnabout_queue as queue cross join turnabout_message as message
  on message.id in (select id from turnabout_place where queue_id = queue.id)
where exists (select 1 from turnabout_queue as source where source.dead_letter_id = queue.id);
