-- Clear: the oldest rows of history go.

-- name: last_all
-- The place of the last of the rows that `all` removes.
select max(seq) from (
  select seq from turnabout_history where queue_id = :queue order by seq limit :most
);

-- name: all
-- Rows however they ended.
delete from turnabout_history
where queue_id = :queue and seq in (
  select seq from turnabout_history where queue_id = :queue order by seq limit :most
);

-- name: last_done
-- The same of `done`.
select max(seq) from (
  select seq from turnabout_history
  where queue_id = :queue and outcome = 'done'
  order by seq
  limit :most
);

-- name: done
-- Rows of messages that are done.
delete from turnabout_history
where queue_id = :queue and seq in (
  select seq from turnabout_history
  where queue_id = :queue and outcome = 'done'
  order by seq
  limit :most
);

-- name: last_failed
-- The same of `failed`.
select max(seq) from (
  select seq from turnabout_history indexed by turnabout_history_failed
  where queue_id = :queue and outcome <> 'done'
  order by finished_at, seq
  limit :most
);

-- name: failed
-- Rows of all others.
delete from turnabout_history
where queue_id = :queue and seq in (
  select seq from turnabout_history indexed by turnabout_history_failed
  where queue_id = :queue and outcome <> 'done'
  order by finished_at, seq
  limit :most
);
