-- The log: steps that some verbs share. A position has a place (seq) in each queue's history.

-- name: queues
-- Of each queue: the place of the last message that ever ended there, that of the last row, and up
-- to where rows were removed. Then the same of queues that are gone.
select queue.id, queue.done + queue.dead + queue.cancelled as ended,
  (select max(seq) from turnabout_history where queue_id = queue.id) as last,
  coalesce(floor.seq, 0) as floor
from turnabout_queue as queue left join turnabout_log_floor as floor on floor.queue_id = queue.id
union all
select queue_id, seq, null, seq from turnabout_log_floor
where not exists (select 1 from turnabout_queue as queue where id = queue_id);

-- name: nth
-- The place of a row, counted on from a place.
select seq from turnabout_history where queue_id = :queue and seq > :after order by seq
limit 1 offset :rows - 1;

-- name: count
-- How many rows there are between two places, counted up to :most.
select count(*) from (
  select 1 from turnabout_history
  where queue_id = :queue and seq > :after and seq <= :upto limit :most
);

-- name: at_or_after
-- The first row at a place or after it.
select seq, finished_at from turnabout_history
where queue_id = :queue and seq >= :seq order by seq limit 1;
