-- Stats of channels: the fullest ones.

-- name: count
-- Unfinished messages by channel. Both sets of ready ones are counted in their indexes, ordered by
-- channel; scheduled and leased ones have an index too, and are subtracted from the second set. The
-- oldest by its id, or where the queue is mixed by when it was sent.
select channel, sum(scheduled) as scheduled, sum(ready) as ready, sum(leased) as leased,
  sum(ran_out) as ran_out, min(oldest) as oldest
from (
  select channel, 0 as scheduled, count(*) as ready, 0 as leased, 0 as ran_out,
    min(iif(:mixed, sent_at, id)) as oldest
  from turnabout_message where queue_id = :queue and status = 0 and limited = 0 group by channel
  union all
  select channel, sum(at > :now), sum(at <= :now), 0, 0,
    min(iif(at > :now, null, iif(:mixed, sent_at, id)))
  from turnabout_message where queue_id = :queue and limited = 1 and status = 0 group by channel
  union all
  select channel, at > :now, at <= :now, 0, 0, iif(at > :now, null, iif(:mixed, sent_at, id))
  from turnabout_message where queue_id = :queue and status = 1 and at > 0
  union all
  select channel, 0, 0, 1, at <= :now, null from turnabout_message
  where queue_id = :queue and status = 2 and at > 0
)
group by channel order by sum(scheduled) + sum(ready) + sum(leased) desc, channel limit :most;

-- name: sent_at
-- When these messages were sent.
select id, sent_at from turnabout_message where id in (select value from json_each(?));

-- name: first
-- The first message of a limited channel that is not leased: it holds a FIFO channel until `at`.
select at from turnabout_message
where queue_id = :queue and limited = 1 and channel = :channel and status = 0 order by priority, id
limit 1;
