-- Give leased messages back at once, uncharged. Answers as ack does, or that it ended as cancelled.
-- plans: pinned
create or replace function turnabout.release(
    queue text, ids bigint[], attempts int[], now_ms turnabout.instant default null,
    leases bigint[] default null
) returns text[]
language plpgsql as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(release.queue, false);
    v_leases bigint[] := turnabout.leases_of(
        v_queue.id, release.ids, release.attempts, release.leases);
    v_held bigint[] := turnabout.lock_leases(
        v_queue.id, release.ids, release.attempts, v_leases);
    v_unwanted bigint[];
    v_lost text[];
begin
    v_leases := turnabout.only(v_leases, release.ids, v_held);
    select turnabout.requeue(
        v_queue, array_agg(t.id), turnabout.leased_times(array_agg(t.lease)),
        array_agg(0::bigint), coalesce(release.now_ms, turnabout.clock_ms()), 'deferred')
    into v_unwanted
    from unnest(release.ids, v_leases) t (id, lease)
    where t.lease is not null;
    if cardinality(v_held) = cardinality(release.ids) then
        perform turnabout.drop_leases(v_leases, cardinality(v_held));
    end if;
    v_lost := turnabout.lost(v_queue.id, release.ids, v_held);
    if v_unwanted is null then
        return v_lost;
    end if;
    return array_agg(
        case when t.unwanted is not null then 'cancelled' else t.lost end order by t.nr)
    from unnest(turnabout.only(release.ids, release.ids, v_unwanted), v_lost)
        with ordinality t (unwanted, lost, nr);
end
$$;
