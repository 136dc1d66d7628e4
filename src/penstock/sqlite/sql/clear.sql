-- Clear: the oldest rows of history go.

-- name: all
-- Rows however they ended.
delete from history
where queue_id = :queue and seq in (
  select seq from history where queue_id = :queue order by seq limit :most
);

-- name: done
-- Rows of messages that are done.
delete from history
where queue_id = :queue and seq in (
  select seq from history
  where queue_id = :queue and outcome = 'done'
  order by seq
  limit :most
);

-- name: failed
-- Rows of all others.
delete from history
where queue_id = :queue and seq in (
  select seq from history indexed by history_failed
  where queue_id = :queue and outcome <> 'done'
  order by finished_at, seq
  limit :most
);
