-- Give leased messages back at once, uncharged. Answers as ack does, or that it ended as cancelled.
-- plans: pinned
create or replace function turnabout.release(
    queue text, ids bigint[], attempts int[], now_ms bigint default null
) returns text[]
language plpgsql as $$
declare
    v_queue turnabout.queue := turnabout.find_queue(release.queue);
    v_held bigint[] := turnabout.lock_leases(v_queue.id, release.ids, release.attempts);
    v_unwanted bigint[];
    v_lost text[];
begin
    v_unwanted := turnabout.requeue(
        v_queue, v_held, array_fill(0::bigint, array[cardinality(v_held)]),
        coalesce(release.now_ms, turnabout.clock_ms()), 'deferred');
    v_lost := turnabout.lost(v_queue.id, release.ids, v_held);
    if v_unwanted is null then
        return v_lost;
    end if;
    return array_agg(
        case when t.id = any (v_unwanted) then 'cancelled' else v_lost[t.nr] end order by t.nr)
    from unnest(release.ids) with ordinality t (id, nr);
end
$$;
