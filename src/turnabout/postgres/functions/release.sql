-- Give leased messages back at once, uncharged. Answers as ack does, or that it ended as cancelled.
create or replace function turnabout.release(
    queue text, ids bigint[], attempts int[], now_ms bigint default null
) returns text[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_queue turnabout.queue := turnabout.find_queue(release.queue);
    v_held bigint[] := turnabout.hold(v_queue.id, release.ids, release.attempts);
    v_unwanted bigint[];
    v_lost text[];
begin
    v_unwanted := turnabout.come_back(
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
