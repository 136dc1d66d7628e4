-- Give leased messages back at once, uncharged. Answers as ack does.
create or replace function penstock.release(
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
    v_queue penstock.queue := penstock.find_queue(release.queue);
    v_held bigint[] := penstock.hold(v_queue.id, release.ids, release.attempts);
begin
    perform penstock.come_back(
        v_queue, v_held, array_fill(0::bigint, array[cardinality(v_held)]),
        coalesce(release.now_ms, penstock.clock_ms()));
    return penstock.lost(v_queue.id, release.ids, v_held);
end
$$;
