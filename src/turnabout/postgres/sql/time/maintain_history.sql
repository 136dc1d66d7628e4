-- Sweep rows of history that are older than their queue's settings, a bounded share. Where no queue
-- keeps its history for longer, whole days are dropped instead (maintain_days), and rows are swept
-- only if that was not possible for two more days. Nobody sees them meanwhile.
create or replace function turnabout.maintain_history(queue turnabout.queue, now_ms bigint)
returns void
language plpgsql as $$
declare
    v_day bigint := 86400000;
    v_done bigint := queue.history_ms;
    v_failed bigint := coalesce(queue.history_failed_ms, queue.history_ms);
    v_longest bigint := turnabout.longest_history();
begin
    perform turnabout.drop_history(
        queue.id,
        now_ms - v_done
            - case when v_done >= v_day and v_done = v_longest then 2 * v_day else 0 end,
        now_ms - v_failed
            - case when v_failed >= v_day and v_failed = v_longest then 2 * v_day else 0 end,
        5000);
end
$$;
