-- Samples of queues, for the dashboard's charts; insert only. step_ms: how far apart they are. A
-- queue is known by its name, so that nothing has to be done here when it goes.
create table turnabout_sample (
  queue text not null, step_ms integer not null, at integer not null, ready integer not null,
  leased integer not null, oldest_ms integer, sent integer not null, done integer not null,
  dead integer not null,
  shares text,  -- JSON: {channel: [got, fair]}
  primary key (queue, step_ms, at)
) strict, without rowid;

create index turnabout_sample_age on turnabout_sample (step_ms, at);
