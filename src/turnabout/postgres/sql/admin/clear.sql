-- Remove up to `most` of the oldest rows of history: done | failed (all others) | all. Answers with
-- how many; call again until there are none.
create or replace function turnabout.clear(queue text, which text, most int default 10000)
returns int language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(clear.queue, false);
begin
    return turnabout.drop_history(
        v_queue.id, case when which <> 'failed' then 9000000000000000 else 0 end,
        case when which <> 'done' then 9000000000000000 else 0 end, clear.most);
end $$;
