-- These attempts failed: charged, and back after a wait, or dead. A null delay waits for the
-- back-off. Answers per receipt: its place in the list, the outcome (retrying | dead | blocked |
-- cancelled | lost), and with it: `at` when it comes back, or in `what` the name of the dead-letter
-- queue (null if there is none), or what the message is now.
create or replace function turnabout.fail(
    queue text, ids bigint[], attempts int[], errors turnabout.error_text[], retries boolean[],
    delays turnabout.delay[], now_ms turnabout.instant default null, leases bigint[] default null,
    workers text[] default null
) returns table (nr int, outcome text, at bigint, what text)
language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(fail.queue, false);
    v_now bigint := coalesce(fail.now_ms, turnabout.clock_ms());
    v_leases bigint[] := turnabout.leases_of(v_queue.id, fail.ids, fail.attempts, fail.leases);
    v_held bigint[] := turnabout.lock_leases(v_queue.id, fail.ids, fail.attempts, v_leases);
    v_all boolean := cardinality(v_held) = cardinality(fail.ids);
    v_refused bigint[]; v_used_up bigint[]; v_worn bigint[]; v_gone_nrs bigint[]; v_back bigint[];
    v_delays bigint[]; v_back_nrs bigint[]; v_unwanted bigint[]; v_dead_letter text;
begin
    v_leases := turnabout.null_unless_held(v_leases, fail.ids, v_held);

    -- 1. Charge, keep the error, and see who may try again.
    with charged as (
        update turnabout.message m set failures = m.failures + 1,
            attempt = m.attempt + 1, leased_at = t.leased_at,
            errors = turnabout.with_error(
                m.errors, m.attempt + 1, v_now, t.error, t.leased_at,
                left(t.worker, 255)),
            last_error = t.error
        from unnest(
            fail.ids, v_leases, turnabout.leased_times(v_leases), fail.errors, fail.retries,
            fail.delays, fail.workers
        ) with ordinality t (id, lease, leased_at, error, retry, delay, worker, nr)
        where m.id = t.id and t.lease is not null
        returning t.nr, m.id, t.retry, m.failures, m.crashes, t.delay, m.cancel_requested,
            m.attempt - coalesce(m.delivered_before, 0) as deliveries
    ),
    judged as (
        select c.nr, c.id, c.retry, c.cancel_requested,
            turnabout.exhausted(v_queue, c.failures + c.crashes, c.deliveries) as used_up,
            coalesce(c.delay, turnabout.backoff_ms(v_queue, c.failures + c.crashes)) as delay
        from charged c
    )
    select array_agg(j.id) filter (where not j.retry and not j.cancel_requested),
        array_agg(j.id) filter (
            where j.retry and j.used_up = 'attempts' and not j.cancel_requested),
        array_agg(j.id) filter (
            where j.retry and j.used_up = 'deliveries' and not j.cancel_requested),
        array_agg(j.nr) filter (where not j.comes_back),
        array_agg(j.id) filter (where j.comes_back), array_agg(j.delay) filter (where j.comes_back),
        array_agg(j.nr) filter (where j.comes_back)
    into v_refused, v_used_up, v_worn, v_gone_nrs, v_back, v_delays, v_back_nrs
    from (
        select *, j.retry and j.used_up is null or j.cancel_requested as comes_back from judged j
    ) j;

    -- 2. Requeue, or dead-letter. (Those that were to be cancelled do not come back.)
    if v_back is not null then
        select r.unwanted into v_unwanted
        from turnabout.requeue(v_queue, v_back, null, v_delays, v_now, 'failed') r;
    end if;
    if v_refused is not null then
        v_dead_letter := turnabout.dead_letter(v_queue, v_refused, 'refused', v_now);
    end if;
    if v_used_up is not null then
        v_dead_letter := turnabout.dead_letter(v_queue, v_used_up, 'attempts', v_now);
    end if;
    if v_worn is not null then
        v_dead_letter := turnabout.dead_letter(v_queue, v_worn, 'deliveries', v_now);
    end if;

    if v_all then perform turnabout.drop_leases(v_leases, cardinality(v_held)); end if;

    -- 3. Answer.
    return query
    select b.nr::int, 'retrying', v_now + b.delay, null::text
    from unnest(v_back, v_delays, v_back_nrs) b (id, delay, nr)
    where v_unwanted is null or b.id <> all (v_unwanted)
    union all
    select b.nr::int, 'cancelled', null::bigint, null::text
    from unnest(v_back, v_back_nrs) b (id, nr) where b.id = any (v_unwanted)
    union all
    select d.nr::int, case when v_dead_letter is null then 'blocked' else 'dead' end, null::bigint,
        nullif(v_dead_letter, '')
    from unnest(v_gone_nrs) d (nr)
    union all
    select l.nr::int, 'lost', null::bigint, l.now
    from unnest(turnabout.places_of_lost(v_queue.id, fail.ids, v_held)) with ordinality l (now, nr)
    where l.now is not null;
end $$;
