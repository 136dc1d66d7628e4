-- Redrive step: the next messages of a redrive. How a message moves is in finish.sql.

-- name: find
-- The redrive.
select * from turnabout_redrive where id = :id;

-- name: next
-- The next messages after the last one looked at; leased ones are passed over.
select id, channel, origin from turnabout_message indexed by turnabout_message_of_queue
where queue_id = :queue and id > :after and status < 2
order by id
limit :most;

-- name: next_named
-- The same among those that were named.
select id, channel, origin from turnabout_message
where id in (select value from json_each(:ids)) and queue_id = :queue and id > :after
  and status < 2
order by id
limit :most;

-- name: went_on
-- How far it has come.
update turnabout_redrive
set moved = :moved, skipped = :skipped, last_id = :last_id, state = :state,
  finished_at = :finished_at, next_at = :next_at
where id = :id;

-- name: left
-- Messages that have gone on to another queue do not count here.
update turnabout_queue set sent = sent - :n where id = :queue;
