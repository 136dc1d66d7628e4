-- Queues in which maintenance has something to do: of many, some that are chosen by chance.

-- name: by_timers
-- Where something is due. A jump in an index leads to the next queue that has an entry there.
with recursive there (id) as (
  select 0
  union all
  select nullif(min(
    coalesce((select queue_id from turnabout_message indexed by turnabout_message_timer
              where at > 0 and queue_id > there.id order by queue_id limit 1), :none),
    coalesce((select queue_id from turnabout_message indexed by turnabout_message_expiry
              where expires_at is not null and queue_id > there.id
              order by queue_id limit 1), :none)
  ), :none)
  from there where id is not null
)
select name from (
  select id from there
  where exists (select 1 from turnabout_message indexed by turnabout_message_timer
                where queue_id = there.id and status in (1, 2) and at > 0 and at <= :now)
    or exists (select 1 from turnabout_message indexed by turnabout_message_expiry
               where queue_id = there.id and expires_at is not null and expires_at <= :now
                 and status < 2)
  union
  select queue_id from turnabout_redrive indexed by turnabout_redrive_running
  where state = 'running' and (next_at is null or next_at <= :now)
) as due
cross join turnabout_queue as queue on queue.id = due.id order by random() limit :most;

-- name: by_old_rows
-- Queues with a row to sweep: of history (the first one after the last sweep, or one that was not
-- done), events or dedup entries.
select name from turnabout_queue as queue
where (select finished_at from turnabout_history
       where queue_id = queue.id and seq > queue.swept order by seq limit 1) < :now - history_ms
  or exists (select 1 from turnabout_history indexed by turnabout_history_failed
             where queue_id = queue.id and outcome <> 'done'
               and finished_at < :now - coalesce(queue.history_failed_ms, queue.history_ms))
  or (select at from turnabout_event where queue_id = queue.id order by seq limit 1)
    < :now - 86400000
  or exists (select 1 from turnabout_dedup where queue_id = queue.id and until_ms <= :now)
  or (select not exists (select 1 from turnabout_message not indexed
                         where id = entry.message_id and queue_id = queue.id)
      from turnabout_dedup as entry indexed by turnabout_dedup_sweep
      where queue_id = queue.id and until_ms is null order by message_id limit 1)
order by random() limit :most;
