-- Steps on the rows of limited channels that many verbs share.

-- name: rows
-- The rows of these channels, as far as they have one.
select * from turnabout_channel
where queue_id = :queue and name in (select value from json_each(:names));

-- name: add
-- A row for a channel that becomes limited: awake, with the counts of what is in it already.
insert into turnabout_channel (queue_id, name, wake_at, size, leased)
select :queue, :name, 0, ready.n + limited.n + scheduled.n + leased.n, leased.n from
  (select count(*) as n from turnabout_message
   where queue_id = :queue and status = 0 and limited = 0 and channel = :name) as ready,
  (select count(*) as n from turnabout_message
   where queue_id = :queue and status = 0 and limited = 1 and channel = :name) as limited,
  (select count(*) as n from turnabout_message
   where queue_id = :queue and status = 1 and channel = :name) as scheduled,
  (select count(*) as n from turnabout_message
   where queue_id = :queue and status = 2 and limited = 1 and channel = :name) as leased;

-- name: adopt_leases
-- Leases that a channel granted before it was limited: from now on they take its slots.
update turnabout_message set limited = 1 where id in (
  select id from turnabout_message
  where queue_id = :queue and status = 2 and at > 0 and limited = 0 and channel = :name
);

-- name: change
-- A change in a channel: more or fewer messages, more or fewer leases. It wakes up.
update turnabout_channel set size = size + ?, leased = leased + ?, wake_at = 0
where queue_id = ? and name = ?;
