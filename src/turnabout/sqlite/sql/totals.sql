-- Totals: counts of queues from the queues' rows, without reading their messages. The oldest ready
-- one is searched among a few messages only: the first one without limits, the first one of limited
-- channels among a thousand, and the first delayed one that is due.

-- name: all, of_namespace
-- All queues by name, or those of a namespace.
select id, name, (select sent from turnabout_given where queue_id = queue.id) as sent,
  done, dead, cancelled, expired,
  (select sent_at from turnabout_message indexed by turnabout_message_ready
   where queue_id = queue.id and status = 0 and limited = 0
   order by channel, priority limit 1) as plain,
  (select sent_at from turnabout_message
   where id = (
     select id from (
       select id, status, at from turnabout_message indexed by turnabout_message_limited
       where queue_id = queue.id and limited = 1 order by channel, status, priority, id limit 1000
     )
     where status = 0 and at <= :now limit 1
   )) as limited,
  (select sent_at from turnabout_message indexed by turnabout_message_timer
   where queue_id = queue.id and status = 1 and at > 0 and at <= :now order by at limit 1) as due,
  (select count(*) from (
     select 1 from turnabout_message indexed by turnabout_message_timer
     where queue_id = queue.id and status = 2 and at > 0 and at <= :now limit 1000)) as ran_out
from turnabout_queue as queue
where substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace  -- only: of_namespace
order by name;

-- name: bytes
-- Of the payloads of a queue's unfinished messages. (A length is in the head of a row: no payload
-- is read.)
select coalesce(sum(length(payload)), 0) from turnabout_message
where id in (select id from turnabout_place where queue_id = :queue);
