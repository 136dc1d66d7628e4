-- Peek: unfinished messages by id. A message is scheduled while its time is to come: `at` is 0
-- unless it waits or is leased.

-- name: all
-- Messages in order of sending.
select * from turnabout_message
where queue_id = :queue and id > :after
  and (:channel is null or channel = :channel)
  and (:state is null or :state =
       case when status = 2 then 'leased' when at > :now then 'scheduled' else 'ready' end)
order by id
limit :most;

-- name: near
-- The same among the next messages, whatever their state.
select * from turnabout_message
where queue_id = :queue and id > :after
  and id <= ifnull((
    select id from turnabout_message where queue_id = :queue and id > :after
    order by id limit 1 offset :window
  ), 9223372036854775807)
  and (:channel is null or channel = :channel)
  and (:state is null or :state =
       case when status = 2 then 'leased' when at > :now then 'scheduled' else 'ready' end)
order by id
limit :most;

-- name: leased
-- Leased messages, where they are few: found by their timers and then sorted.
select * from turnabout_message indexed by turnabout_message_timer
where queue_id = :queue and status = 2 and at > 0 and id > :after
  and (:channel is null or channel = :channel)
order by id
limit :most;

-- name: scheduled
-- Messages whose time is to come, found by their timers.
select * from turnabout_message indexed by turnabout_message_timer
where queue_id = :queue and status in (0, 1) and at > :now and at > 0 and id > :after
  and (:channel is null or channel = :channel)
order by id
limit :most;
