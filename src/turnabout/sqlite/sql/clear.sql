-- Clear: the oldest rows of history go.

-- name: last_all
-- The place of the last of the rows that `all` removes.
select max(seq) from (
  select seq from history where queue_id = :queue order by seq limit :most
);

-- name: all
-- Rows however they ended.
delete from history
where queue_id = :queue and seq in (
  select seq from history where queue_id = :queue order by seq limit :most
);

-- name: last_done
-- The same of `done`.
select max(seq) from (
  select seq from history
  where queue_id = :queue and outcome = 'done'
  order by seq
  limit :most
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

-- name: last_failed
-- The same of `failed`.
select max(seq) from (
  select seq from history indexed by history_failed
  where queue_id = :queue and outcome <> 'done'
  order by finished_at, seq
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
