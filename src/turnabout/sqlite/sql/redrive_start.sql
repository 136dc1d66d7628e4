-- Redrive start: a row to go by.

-- name: add
-- A redrive.
insert into turnabout_redrive (
  queue_id, queue, target, channel, died_from, died_until, error, ids, started_by, per_second,
  max_redrives, state, created_at
) values (
  :queue_id, :queue, :target, :channel, :died_from, :died_until, :error, :ids, :started_by,
  :per_second, :max_redrives, :state, :now
);

-- name: count
-- Number of messages that the filters match, by target queue, and by whether they were redriven too
-- often. In SQL, as this holds the write lock: a tenth of the time of a loop in Python.
select coalesce(:target, origin ->> 'queue') as target,
  coalesce(origin ->> 'redrives', 0) >= :max_redrives as is_worn, count(*) as n
from turnabout_message
where id in (select id from turnabout_place where queue_id = :queue) and status < 2
  and (:channel is null or channel = :channel)
  and (:died_from is null or origin ->> 'died_at' >= :died_from)
  and (:died_until is null or origin ->> 'died_at' < :died_until)
  and (:error is null or instr(origin ->> 'last_error', :error) > 0)
  and (:ids is null or id in (select value from json_each(:ids)))
group by 1, 2;
