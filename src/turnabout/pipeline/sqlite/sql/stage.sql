-- Stage: messages are put aside.

-- name: add
-- Some of a queue.
insert into turnabout_stage (attempt, staged_at, queue, messages, content) values (?, ?, ?, ?, ?);
