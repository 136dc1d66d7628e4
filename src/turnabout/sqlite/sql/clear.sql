-- Clear: the oldest rows of history go. First the place of the last one that will.

-- name: last_all, all, last_done, done
-- Rows however they ended; rows of messages that are done.
select max(seq) from (  -- only: last_all, last_done
delete from turnabout_history where queue_id = :queue and seq in (  -- only: all, done
  select seq from turnabout_history
  where queue_id = :queue
    and outcome = 'done'  -- only: last_done, done
  order by seq limit :most
);

-- name: last_failed, failed
-- Rows of all others.
select max(seq) from (  -- only: last_failed
delete from turnabout_history where queue_id = :queue and seq in (  -- only: failed
  select seq from turnabout_history indexed by turnabout_history_failed
  where queue_id = :queue and outcome <> 'done' order by finished_at, seq limit :most
);
