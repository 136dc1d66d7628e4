-- Take a subscription, or make it: from now on it is this reader's, by a generation that nobody
-- had.
create or replace function turnabout_pipeline.subscription_open(
    subscription text, owner text, now_ms turnabout.instant default null, out generation bigint,
    out acked bigint
) language plpgsql as $$  -- plans: free
declare
    v_now bigint := coalesce(subscription_open.now_ms, turnabout.clock_ms());
begin
    insert into turnabout.subscription as s (name, owner, generation, opened_at, seen_at)
    values (
        subscription_open.subscription, subscription_open.owner, nextval('turnabout.generation'),
        v_now, v_now
    ) on conflict (name) do update
    set owner = excluded.owner, generation = excluded.generation, opened_at = v_now, seen_at = v_now
    returning s.generation, s.acked
    into subscription_open.generation, subscription_open.acked;
end $$;
