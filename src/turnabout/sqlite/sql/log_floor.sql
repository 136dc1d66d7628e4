-- Log floor: what removes history notes up to where.

-- name: raise
-- Rows up to that place were removed.
insert into turnabout_log_floor (queue_id, seq) values (:queue, :seq)
on conflict (queue_id) do update set seq = max(seq, excluded.seq);
