-- What was removed from the history, for those who read all of it.

-- Up to where something was removed from the history of a queue; it outlives the queue. swept: as the
-- queue's row had it then. If that has more now, a library that knows no floors has swept since.
create table log_floor (
  queue_id integer primary key,
  seq integer not null,
  swept integer not null
) strict;

insert into log_floor (queue_id, seq, swept) select id, swept, swept from queue where swept > 0;
