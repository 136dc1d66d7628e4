-- Keep samples, where none of that time is kept; and remove those that are older than `kept` says,
-- in ms by their step.
create or replace function turnabout_dashboard.samples_keep(
    samples jsonb, kept jsonb, now_ms turnabout.instant default null
) returns void language plpgsql as $$  -- plans: free
declare
    v_now bigint := coalesce(samples_keep.now_ms, turnabout.clock_ms());
begin
    insert into turnabout.sample (
        queue, step_ms, at, ready, leased, oldest_ms, sent, done, dead, shares
    )
    select s.queue, s.step_ms, s.at, s.ready, s.leased, s.oldest_ms, s.sent, s.done, s.dead,
        s.shares
    from jsonb_to_recordset(samples) s (
        queue text, step_ms int, at bigint, ready bigint, leased bigint, oldest_ms bigint,
        sent bigint, done bigint, dead bigint, shares text
    )
    order by s.queue, s.step_ms, s.at on conflict do nothing;
    delete from turnabout.sample o
    using jsonb_each_text(kept) k
    where o.step_ms = k.key::int and o.at < v_now - k.value::bigint;
end $$;
