-- Schedule fire: how its message is sent is in send.sql.

-- name: find
-- The schedule.
select * from turnabout_schedule where name = :name;

-- name: is_unfinished
-- Whether the last message has not ended yet.
select exists (
  select 1 from turnabout_message not indexed
  where id = :id and queue_id = (select id from turnabout_queue where name = :queue)
);

-- name: move_on
-- It has sent a message, or left one out.
update turnabout_schedule
set next_at = :next_at, last_at = :last_at, last_id = :last_id, sent = :sent,
  refused = refused + :refused where name = :name;
