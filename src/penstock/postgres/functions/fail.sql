-- These attempts failed: charged, and back after a wait, or dead. A null delay waits for the
-- back-off. Answers per receipt: its place in the list, the outcome (retrying | dead | blocked |
-- cancelled | lost), and with it: `at` when it comes back, or in `what` the name of the dead-letter
-- queue (null if there is none), or what the message is now.
create or replace function penstock.fail(
    queue text, ids bigint[], attempts int[], errors text[], retries boolean[], delays bigint[],
    now_ms bigint default null
) returns table (nr int, outcome text, at bigint, what text)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_queue penstock.queue := penstock.find_queue(fail.queue);
    v_now bigint := coalesce(fail.now_ms, penstock.clock_ms());
    v_held bigint[] := penstock.hold(v_queue.id, fail.ids, fail.attempts);
    v_refused bigint[];
    v_used_up bigint[];
    v_back bigint[];
    v_delays bigint[];
    v_unwanted bigint[];
    v_grave text;
begin
    -- 1. Charge, keep the error, and see who may try again.
    with charged as (
        update penstock.message m
        set failures = m.failures + 1,
            first_error = coalesce(m.first_error, t.error),
            last_error = t.error
        from unnest(fail.ids, fail.errors, fail.retries, fail.delays)
            t (id, error, retry, delay)
        where m.id = t.id and m.id = any (v_held)
        returning m.id, t.retry, m.failures, m.crashes, t.delay, m.cancel_requested
    ),
    judged as (
        select c.id, c.retry, c.cancel_requested,
            penstock.exhausted(v_queue, c.failures, c.crashes) as used_up,
            coalesce(c.delay, penstock.backoff_ms(v_queue, c.failures + c.crashes)) as delay
        from charged c
    )
    select array_agg(j.id) filter (where not j.retry and not j.cancel_requested),
        array_agg(j.id) filter (where j.retry and j.used_up and not j.cancel_requested),
        array_agg(j.id) filter (where j.retry and not j.used_up or j.cancel_requested),
        array_agg(j.delay) filter (where j.retry and not j.used_up or j.cancel_requested)
    into v_refused, v_used_up, v_back, v_delays
    from judged j;

    -- 2. Bring back, or bury. (Those that were to be cancelled do not come back.)
    if v_back is not null then
        v_unwanted := penstock.come_back(v_queue, v_back, v_delays, v_now, 'failed');
    end if;
    if v_refused is not null then
        perform penstock.tell(v_queue, v_refused);
        v_grave := penstock.bury(v_queue, v_refused, 'refused', v_now);
    end if;
    if v_used_up is not null then
        perform penstock.tell(v_queue, v_used_up);
        v_grave := penstock.bury(v_queue, v_used_up, 'attempts', v_now);
    end if;

    -- 3. Answer.
    return query
    select t.nr::int, case
            when t.id = any (v_unwanted) then 'cancelled'
            when b.id is not null then 'retrying'
            when v_grave is null then 'blocked'
            else 'dead'
        end,
        case when t.id <> all (coalesce(v_unwanted, '{}')) then v_now + b.delay end,
        case when b.id is null then nullif(v_grave, '') end
    from unnest(fail.ids) with ordinality t (id, nr)
    left join unnest(v_back, v_delays) b (id, delay) on b.id = t.id
    where t.id = any (v_held)
    union all
    select l.nr::int, 'lost', null::bigint, l.now
    from unnest(penstock.lost(v_queue.id, fail.ids, v_held)) with ordinality l (now, nr)
    where l.now is not null;
end
$$;
