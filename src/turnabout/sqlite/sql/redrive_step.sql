-- Redrive step: the next messages of a redrive. How a message moves is in finish.sql.

-- name: find
-- The redrive.
select * from turnabout_redrive where id = :id;

-- name: near, next, next_named
-- The next messages after the last one looked at, as peek finds them, or among those that were
-- named; leased ones are passed over.
select id, channel, origin from turnabout_message not indexed
where queue_id = :queue and status < 2 and id > :after
  and id <= ifnull((  -- only: near
    select id from turnabout_message  -- only: near
    where id > :after order by id limit 1 offset :most + 5000  -- only: near
  ), 9223372036854775807)  -- only: near
  and id in (select id from turnabout_place where queue_id = :queue and id > :after)  -- only: next
  and id in (select value from json_each(:ids))  -- only: next_named
order by id limit :most;

-- name: went_on
-- How far it has come.
update turnabout_redrive set moved = :moved, skipped = :skipped, last_id = :last_id, state = :state,
  finished_at = :finished_at, next_at = :next_at
where id = :id;
