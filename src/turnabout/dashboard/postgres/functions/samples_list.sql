-- A queue's samples of one distance, since a time, the oldest first.
create or replace function turnabout_dashboard.samples_list(
    queue text, step_ms int, since bigint
) returns setof turnabout.sample language sql stable as $$  -- plans: free
    select s.* from turnabout.sample s
    where s.queue = samples_list.queue and s.step_ms = samples_list.step_ms
        and s.at >= samples_list.since
    order by s.at
$$;
