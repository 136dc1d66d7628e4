-- Events: what happened, in order. How events are written is in event.sql.

-- name: after
-- The next ones.
select seq, kind, at, message_id, channel, attempt, due_at, note from turnabout_event
  indexed by turnabout_event_order
where queue_id = :queue and seq > :after order by seq limit :most;

-- name: last
-- The number of the last event of any queue, swept or not.
select seq from sqlite_sequence where name = 'turnabout_event';
