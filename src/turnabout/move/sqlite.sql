-- The file that is moved: what is noted in it, read from it, and how it is closed.

-- name: move_table
-- The one row of a move. state: copying; closed: nobody gets in, the rest is being carried over;
-- moved. Messages up to last_id are copied by their ids, all later changes are noted.
create table turnabout_move (
  token text not null,
  place text not null,
  state text not null,
  last_id integer not null,
  seen_id integer not null
) strict;

-- name: change_table
-- What has changed since the move began: messages by their ids; rows of history that were removed
-- (queue_id not null) by what tells them from others.
create table turnabout_move_change (
  seq integer primary key autoincrement,  -- no number is used twice: a cursor must stay behind
  id integer not null,
  queue_id integer,
  attempt integer,
  finished_at integer
) strict;

-- name: note
-- Text of a trigger for inserts, updates or deletes of messages, since it sees the writes of every
-- process and of every version.
select printf(
  'create trigger turnabout_move_%s after %s on turnabout_message begin
     insert into turnabout_move_change (id) values (%s.id); end', :kind, :kind, :row);

-- name: note_swept
-- A trigger for history that is swept or cleared.
create trigger turnabout_move_swept after delete on turnabout_history begin
  insert into turnabout_move_change (id, queue_id, attempt, finished_at)
  values (old.id, old.queue_id, old.attempt, old.finished_at);
end;

-- name: begin_move
-- The move's row.
insert into turnabout_move (token, place, state, last_id, seen_id)
select :token, :place, 'copying', coalesce(max(id), 0), :seen_id from turnabout_message;

-- name: ids_row
-- A file that never had a message has no row to count ids from.
insert into sqlite_sequence (name, seq)
select 'turnabout_message', 0
where not exists (select 1 from sqlite_sequence where name = 'turnabout_message');

-- name: skip_ids
-- New messages get ids above all that the target has given out.
update sqlite_sequence set seq = max(seq, :seen_id) where name = 'turnabout_message';

-- name: last_given
-- The highest id that was ever given out.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'turnabout_message';

-- name: has_move
-- Whether a move has begun.
select exists (select 1 from sqlite_master where name = 'turnabout_move');

-- name: the_move
-- The move.
select token, place, state, last_id, seen_id from turnabout_move;

-- name: collisions
-- How many of these ids are messages here, and the first.
select count(*), min(id) from turnabout_message where id in (select value from json_each(:ids));

-- name: forget
-- Changes that are carried over.
delete from turnabout_move_change where seq <= :seq;

-- name: set_state
-- How far the move is.
update turnabout_move set state = :state;

-- name: close
-- Texts of triggers. Together with the views, nothing gets in: not from connections that have the
-- file open, not by plain SQL. (%Q and %w quote, as SQLite reads it back.)
select printf(
  'create trigger turnabout_moved_%s before %s on turnabout_%s begin
     select raise(abort, %Q); end', column1, column2, column3, :text)
from (values
  ('insert', 'insert', 'message'), ('update', 'update', 'message'), ('delete', 'delete', 'message'),
  ('inbox', 'insert', 'inbox'));

-- name: close_table
-- Text of a view in the place of a table: programs that open it are told where the queues are.
select printf('create view turnabout_%s as select * from "%w"', :table, :text);

-- name: has_table
-- Whether there is a table of that name.
select exists (select 1 from sqlite_master where type = 'table' and name = :name);

-- name: queues
-- All queues, each with the name of the one that its dead messages go to. (In a closed file these
-- tables have other names, which `_source.py` puts in.)
select queue.*, target.name as dead_letter_name
from turnabout_queue as queue
left join turnabout_queue as target on target.id = queue.dead_letter_id
order by queue.id;

-- name: history
-- The next rows of a queue's history.
select * from turnabout_history where queue_id = :queue and seq > :after order by seq limit :most;

-- name: events
-- The next events.
select * from turnabout_event where seq > :after order by seq limit :most;

-- name: messages
-- The next messages by id.
select * from turnabout_message where id > :after and id <= :last order by id;

-- name: changed_messages
-- Messages as they are now.
select * from turnabout_message where id in (select value from json_each(:ids)) order by id;

-- name: changes
-- The next changes.
select seq, id, queue_id, attempt, finished_at from turnabout_move_change
where seq > :after order by seq limit :most;

-- name: all_messages
-- Every message, to compare.
select * from turnabout_message order by id;

-- name: leased
-- Messages that are leased, with their leases.
select queue_id, id, attempt, at, leased_at from turnabout_message where status = 2 and at > 0
order by queue_id, id;

-- name: channels
-- Channels with a policy of their own, with messages, or with debt.
select * from turnabout_channel
where size > 0 or paused = 1 or paused_until is not null
  or max_concurrency is not null or rate_count is not null
  or max_size is not null or weight is not null or tat_us > :now_us
order by queue_id, name;

-- name: dedup
-- All entries.
select * from turnabout_dedup;

-- name: schedules
-- All schedules.
select * from turnabout_schedule order by name;

-- name: redrives
-- All redrives.
select * from turnabout_redrive order by id;

-- name: namespaces
-- All namespaces.
select * from turnabout_namespace order by name;

-- name: tokens
-- All tokens.
select * from turnabout_token order by id;

-- name: batches
-- All batches that were published.
select sink, batch, messages, published_at from turnabout_sink_batch;

-- name: left
-- What stays behind of pipelines: staged messages and watermarks.
select
  (select count(*) from turnabout_stage),
  (select count(*) from turnabout_watermark);

-- name: count_messages
-- How many messages each queue has, and the sum of their ids: from the index alone.
select queue_id, count(*), sum(id) from turnabout_message group by queue_id;

-- name: count_leased
-- How many of them are leased.
select queue_id, count(*) from turnabout_message where status = 2 and at > 0 group by queue_id;

-- name: count_history
-- The same for the history.
select queue_id, count(*), sum(id) from turnabout_history group by queue_id;

-- name: count_policies
-- Channels with a policy of their own, by queue.
select queue_id, count(*) from turnabout_channel
where paused = 1 or max_concurrency is not null or rate_count is not null
  or max_size is not null or weight is not null
group by queue_id;

-- name: count_dedup
-- How many entries.
select count(*) from turnabout_dedup;
