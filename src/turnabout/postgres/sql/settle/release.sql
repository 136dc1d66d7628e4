-- Give leased messages back at once, uncharged. Answers as defer does, of
-- those that are not back.
create or replace function turnabout.release(
    queue text, ids bigint[], attempts int[], now_ms turnabout.instant default null,
    leases bigint[] default null
) returns table (nr int, now text, what text) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(release.queue, false);
    v_leases bigint[] := turnabout.leases_of(
        v_queue.id, release.ids, release.attempts, release.leases);
    v_held bigint[] := turnabout.lock_leases(v_queue.id, release.ids, release.attempts, v_leases);
    v_unwanted bigint[]; v_dead bigint[]; v_dead_letter text;
begin
    v_leases := turnabout.null_unless_held(v_leases, release.ids, v_held);
    select r.unwanted, r.dead, r.dead_letter into v_unwanted, v_dead, v_dead_letter from (
        select array_agg(t.id) as ids, turnabout.leased_times(array_agg(t.lease)) as leased_at,
            array_agg(0::bigint) as delays
        from unnest(release.ids, v_leases) t (id, lease) where t.lease is not null
    ) h
    cross join lateral turnabout.requeue(
        v_queue, h.ids, h.leased_at, h.delays, coalesce(release.now_ms, turnabout.clock_ms()),
        'deferred') r;
    if cardinality(v_held) = cardinality(release.ids) then
        perform turnabout.drop_leases(v_leases, cardinality(v_held));
    end if;

    return query
    select t.nr::int, case
            when t.id = any (v_unwanted) then 'cancelled'
            when v_dead_letter is null then 'blocked'
            else 'dead'
        end, nullif(v_dead_letter, '')
    from unnest(release.ids, v_leases) with ordinality t (id, lease, nr)
    where t.lease is not null and (t.id = any (v_unwanted) or t.id = any (v_dead))
    union all
    select l.nr::int, l.now, null::text
    from unnest(turnabout.places_of_lost(v_queue.id, release.ids, v_held))
        with ordinality l (now, nr)
    where l.now is not null;
end $$;
