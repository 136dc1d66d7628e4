-- Keep messages in history that are about to end (2 dead, 3 cancelled, 4 expired; ack has its own
-- way), if the queue keeps such.
create or replace function turnabout.keep_history(
    queue turnabout.queue, ids bigint[], outcome int, now_ms bigint
) returns void language sql as $$
    {{history
        leased_at = e.leased_at;
        at = now_ms;
        attempt = e.attempt;
        outcome = keep_history.outcome;
        content = null, null, {{payload}};
        ended = turnabout.message e
            where e.id = any (ids) and coalesce(queue.history_failed_ms, queue.history_ms) > 0}}
$$;
