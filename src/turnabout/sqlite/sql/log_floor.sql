-- Log floor: each removal of history notes the position up to which it went.

-- name: raise
-- Rows up to that place were removed.
insert into turnabout_log_floor (queue_id, seq) values (:queue, :seq)
on conflict (queue_id) do update set seq = max(seq, excluded.seq);
