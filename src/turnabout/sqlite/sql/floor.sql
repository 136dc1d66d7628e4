-- Up to where a queue's history was removed.

-- name: raise
-- Rows up to that place were removed.
insert into log_floor (queue_id, seq, swept)
values (:queue, :seq, coalesce((select swept from queue where id = :queue), 0))
on conflict (queue_id) do update
set seq = max(seq, excluded.seq), swept = max(swept, excluded.swept);