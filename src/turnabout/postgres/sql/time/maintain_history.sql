-- Sweep rows of history that are older than their queue's settings, a bounded share. Nobody sees
-- them meanwhile.
create or replace function turnabout.maintain_history(queue turnabout.queue, now_ms bigint)
returns void language plpgsql as $$
declare
    v_longest bigint := turnabout.longest_history();
    v_failed bigint := coalesce(queue.history_failed_ms, queue.history_ms);
begin
    perform turnabout.drop_history(
        queue.id, turnabout.history_before(queue.history_ms, v_longest, now_ms),
        turnabout.history_before(v_failed, v_longest, now_ms),
        5000);
end $$;
