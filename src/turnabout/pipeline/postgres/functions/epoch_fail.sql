-- Fail the messages of an epoch for good; it stays without any. Answers with how many died, and the
-- queues to notify.
create or replace function turnabout_pipeline.epoch_fail(
    subscription text, epoch bigint, error text, now_ms bigint, out dead int, out notified text[]
)
language plpgsql as $$
begin
    with alone as (
        delete from turnabout.epoch_part p
        where p.subscription = epoch_fail.subscription and p.epoch = epoch_fail.epoch
        returning p.queue_id, p.queue, p.ids, p.attempts, p.lease
    )
    select count(*) filter (where f.outcome in ('dead', 'blocked')),
        coalesce(array_agg(q.name::text), '{}')
            || coalesce(array_agg(f.what) filter (where f.outcome = 'dead' and f.what <> ''), '{}')
    into dead, notified
    from alone a
    join turnabout.queue q on q.id = a.queue_id
    cross join lateral turnabout.fail(
        q.name, a.ids, a.attempts, array[error], array[false], array[null::bigint], now_ms,
        array[a.lease]) f;
end
$$;
