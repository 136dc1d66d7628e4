-- Peek: unfinished messages by id. A message is scheduled while its time is to come: `at` is 0
-- unless it waits or is leased.

-- name: near, all
-- Messages in order of sending: among the next ones of all queues; among all of this queue.
select * from turnabout_message not indexed
where queue_id = :queue
  and id > :after and id <= ifnull((  -- only: near
    select id from turnabout_message  -- only: near
    where id > :after order by id limit 1 offset :most + 5000  -- only: near
  ), 9223372036854775807)  -- only: near
  and id in (select id from turnabout_place where queue_id = :queue and id > :after)  -- only: all
  and (:channel is null or channel = :channel)
  and (:state is null or :state =
       case when status = 2 then 'leased' when at > :now then 'scheduled' else 'ready' end)
order by id limit :most;

-- name: leased, scheduled
-- Leased messages, where they are few, and messages whose time is to come: found by their timers
-- and then sorted.
select * from turnabout_message indexed by turnabout_message_timer
where queue_id = :queue and at > 0 and id > :after
  and status = 2  -- only: leased
  and status in (0, 1) and at > :now  -- only: scheduled
  and (:channel is null or channel = :channel)
order by id limit :most;
