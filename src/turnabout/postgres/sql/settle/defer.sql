-- Bring leased messages back later, uncharged, with a new state (null keeps the saved one).
-- Answers per receipt: its place in the list, and either `at` or what the message is now: cancelled
-- among that, blocked, or dead (then `what` names the dead-letter queue).
create or replace function turnabout.defer(
    queue text, ids bigint[], attempts int[], delays turnabout.delay[], states turnabout.kept[],
    now_ms turnabout.instant default null, leases bigint[] default null
) returns table (nr int, at bigint, now text, what text) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(defer.queue, false);
    v_now bigint := coalesce(defer.now_ms, turnabout.clock_ms());
    v_leases bigint[] := turnabout.leases_of(v_queue.id, defer.ids, defer.attempts, defer.leases);
    v_held bigint[] := turnabout.lock_leases(v_queue.id, defer.ids, defer.attempts, v_leases);
    v_all boolean := cardinality(v_held) = cardinality(defer.ids);
    v_unwanted bigint[]; v_dead bigint[]; v_dead_letter text;
begin
    v_leases := turnabout.null_unless_held(v_leases, defer.ids, v_held);
    update turnabout.message m set state = t.state
    from unnest(defer.ids, v_leases, defer.states) t (id, lease, state)
    where m.id = t.id and t.lease is not null and t.state is not null;

    select r.unwanted, r.dead, r.dead_letter into v_unwanted, v_dead, v_dead_letter from (
        select array_agg(t.id) as ids, turnabout.leased_times(array_agg(t.lease)) as leased_at,
            array_agg(t.delay) as delays
        from unnest(defer.ids, v_leases, defer.delays) t (id, lease, delay)
        where t.lease is not null
    ) h
    cross join lateral turnabout.requeue(
        v_queue, h.ids, h.leased_at, h.delays, v_now, 'deferred') r;
    if v_all then perform turnabout.drop_leases(v_leases, cardinality(v_held)); end if;

    return query
    select t.nr::int, v_now + t.delay, case
            when t.id = any (v_unwanted) then 'cancelled'
            when t.id = any (v_dead) and v_dead_letter is null then 'blocked'
            when t.id = any (v_dead) then 'dead'
        end, nullif(v_dead_letter, '')
    from unnest(defer.ids, v_leases, defer.delays) with ordinality t (id, lease, delay, nr)
    where t.lease is not null
    union all
    select l.nr::int, null::bigint, l.now, null::text
    from unnest(turnabout.places_of_lost(v_queue.id, defer.ids, v_held)) with ordinality l (now, nr)
    where l.now is not null;
end $$;
