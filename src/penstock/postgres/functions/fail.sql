-- These attempts failed: charged, and back after a wait, or dead. A null delay waits for the
-- back-off. Answers per receipt: its place in the list, and one of `at` (it comes back then),
-- `dead` (with the dead-letter queue's name, '' if there is none), `now` (the receipt was no
-- current lease).
create or replace function penstock.fail(
    queue text, ids bigint[], attempts int[], errors text[], retries boolean[], delays bigint[],
    now_ms bigint default null
) returns table (nr int, at bigint, dead text, now text)
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
        returning m.id, t.retry, m.failures, m.crashes, t.delay
    ),
    judged as (
        select c.id, c.retry, penstock.exhausted(v_queue, c.failures, c.crashes) as used_up,
            coalesce(c.delay, penstock.backoff_ms(v_queue, c.failures + c.crashes)) as delay
        from charged c
    )
    select array_agg(j.id) filter (where not j.retry),
        array_agg(j.id) filter (where j.retry and j.used_up),
        array_agg(j.id) filter (where j.retry and not j.used_up),
        array_agg(j.delay) filter (where j.retry and not j.used_up)
    into v_refused, v_used_up, v_back, v_delays
    from judged j;

    -- 2. Bring back, or bury.
    if v_back is not null then
        perform penstock.come_back(v_queue, v_back, v_delays, v_now);
    end if;
    if v_refused is not null then
        perform penstock.tell(v_queue, v_refused);
        perform penstock.bury(v_queue, v_refused, 'refused', v_now);
    end if;
    if v_used_up is not null then
        perform penstock.tell(v_queue, v_used_up);
        perform penstock.bury(v_queue, v_used_up, 'attempts', v_now);
    end if;

    -- 3. Answer.
    select coalesce(max(q.name), '') into v_grave from penstock.queue q
    where q.name = v_queue.dead_letter;
    return query
    select t.nr::int, v_now + b.delay,
        case when t.id = any (v_refused) or t.id = any (v_used_up) then v_grave end, null::text
    from unnest(fail.ids) with ordinality t (id, nr)
    left join unnest(v_back, v_delays) b (id, delay) on b.id = t.id
    where t.id = any (v_held)
    union all
    select l.nr::int, null::bigint, null::text, l.now
   
    from unnest(penstock.lost(v_queue.id, fail.ids, v_held)) with ordinality l (now, nr)
    where l.now is not null;
end
$$;
