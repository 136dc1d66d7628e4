-- History: finished messages, the newest first.

-- name: all, failed
-- All in the order of finishing; or only those not done, by time.
select * from turnabout_history
  indexed by turnabout_history_failed  -- only: failed
where queue_id = :queue
  and seq < :before_seq  -- only: all
  and outcome <> 'done' and (finished_at, seq) < (:before_at, :before_seq)  -- only: failed
  and (:outcome is null or outcome = :outcome) and (:channel is null or channel = :channel)
  and (:error is null or instr(error, :error) > 0) and (:from is null or finished_at >= :from)
  and (:until is null or finished_at < :until)
order by seq desc  -- only: all
order by finished_at desc, seq desc  -- only: failed
limit :most;
