-- Give a subscription's messages back to their queues, uncharged, and fence its reader; or forget
-- it altogether. Answers with how many went back, and the queues to notify.
create or replace function turnabout_pipeline.subscription_release(
    subscription text, forget boolean default false, now_ms turnabout.instant default null,
    out returned int, out notified text[]
) language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(subscription_release.now_ms, turnabout.clock_ms());
    v_epoch record;
begin
    returned := 0; notified := '{}';
    perform turnabout.require_places();
    perform from turnabout.subscription s
    where s.name = subscription_release.subscription for update;
    if not found then return; end if;
    for v_epoch in
        select e.epoch from turnabout.epoch e
        where e.subscription = subscription_release.subscription order by e.epoch
    loop
        select subscription_release.returned + r.returned,
            subscription_release.notified || r.notified
        into subscription_release.returned, subscription_release.notified
        from turnabout_pipeline.epoch_return(
            subscription_release.subscription, v_epoch.epoch, 0, 0, v_now) r;
    end loop;
    notified := array(select distinct r.name from unnest(notified) r (name));
    delete from turnabout.epoch e where e.subscription = subscription_release.subscription;
    if forget then
        delete from turnabout.subscription_turn t
        where t.subscription = subscription_release.subscription;
        delete from turnabout.subscription s where s.name = subscription_release.subscription;
    else
        update turnabout.subscription s
        set generation = nextval('turnabout.generation'), owner = '', max_messages = null,
            failures = 0, resume_at = 0
        where s.name = subscription_release.subscription;
    end if;
end $$;
