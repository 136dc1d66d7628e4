-- The file that is moved: what is read from it, and how it is closed.

-- name: move_table
-- The one row of a move, while the file is closed. state: closed (PostgreSQL may not have committed
-- yet) or moved.
create table turnabout_move (token text not null, place text not null, state text not null) strict;

-- name: begin_move
-- The move's row.
insert into turnabout_move (token, place, state) values (:token, :place, 'closed');

-- name: the_move
-- The move.
select token, place, state from turnabout_move;

-- name: end_move
-- The queues are on PostgreSQL.
update turnabout_move set state = 'moved';

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

-- name: last_given
-- The highest id that any queue may have given out.
select ids_taken from turnabout_clock where id = 1;

-- name: last_event
-- The number of the last event.
select coalesce(max(seq), 0) from turnabout_event;

-- name: collision
-- The lowest of these ids that is a message here.
select min(id) from turnabout_message where id in (select value from json_each(:ids));

-- name: queue
-- All queues, each with the name of the one that its dead messages go to.
select given.sent, queue.*, target.name as dead_letter_name from turnabout_queue as queue
join turnabout_given as given on given.queue_id = queue.id
left join turnabout_queue as target on target.id = queue.dead_letter_id order by queue.id;

-- name: channel
-- Channels with a policy of their own, with messages, or with debt.
select * from turnabout_channel
where size > 0 or paused = 1 or paused_until is not null
  or max_concurrency is not null or rate_count is not null
  or max_size is not null or weight is not null or tat_us > :now_us
order by queue_id, name;

-- name: left
-- What stays behind of pipelines: staged messages and watermarks.
select (select coalesce(sum(messages), 0) from turnabout_stage),
  (select count(*) from turnabout_watermark);

-- name: count_message
-- How many messages each queue has.
select queue_id, count(*) from turnabout_message group by queue_id;

-- name: count_leased
-- How many of them are leased.
select queue_id, count(*) from turnabout_message where status = 2 and at > 0 group by queue_id;

-- name: count_history
-- How many rows of history each queue has, and the sum of their ids.
select queue_id, count(*), sum(id) from turnabout_history group by queue_id;

-- name: count_policies
-- Channels with a policy of their own, by queue.
select queue_id, count(*) from turnabout_channel
where paused = 1 or max_concurrency is not null or rate_count is not null
  or max_size is not null or weight is not null
group by queue_id;
