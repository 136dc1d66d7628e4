-- Stats: counts of queues. Scheduled and leased messages are counted in their index; how many are
-- ready follows from the others. The oldest is looked for in front, then among all, .1 µs each: by
-- its id, or where the queue is mixed by when it was sent.

-- name: count, of_namespace
-- One queue, or all by name, or those of a namespace.
select name, paused, pause_reason,
  (select sent from turnabout_given where queue_id = queue.id) as sent,
  done, dead, cancelled, expired,
  (select count(*) from turnabout_message
   where queue_id = queue.id and status in (0, 1) and at > 0 and at > :now) as scheduled,
  (select count(*) from turnabout_message
   where queue_id = queue.id and status = 2 and at > 0) as leased,
  (select count(*) from turnabout_message
   where queue_id = queue.id and status = 2 and at > 0 and at <= :now) as ran_out,
  (select iif(mixed, first, (select sent_at from turnabout_message where id = first))
   from (select coalesce(
     (select id from turnabout_message not indexed
      where not mixed and queue_id = queue.id and status <> 2 and at <= :now
        and id <= (select id from turnabout_message where id > 0 order by id limit 1 offset 100)
      order by id limit 1),
     (select min(key) from (
       select iif(mixed, sent_at, id) as key from turnabout_message
       where queue_id = queue.id and status = 0 and limited = 0
       union all
       select iif(mixed, sent_at, id) from turnabout_message
       where queue_id = queue.id and limited = 1 and status = 0 and at <= :now
       union all
       select iif(mixed, sent_at, id) from turnabout_message
       where queue_id = queue.id and status = 1 and at > 0 and at <= :now))
   ) as first)) as oldest
from turnabout_queue as queue
where (:queue is null or name = :queue) and name > ifnull(:after, '')
  and substr(name, 1, max(instr(name, '/'), 1) - 1) = :namespace  -- only: of_namespace
order by name limit ifnull(:most, -1);
