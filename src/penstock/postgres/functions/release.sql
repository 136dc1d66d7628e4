-- Give leased messages back at once, uncharged. Answers with the receipts that were not current
-- leases, as ack does.
create or replace function penstock.release(
    queue text, ids bigint[], attempts int[], now_ms bigint default null
) returns table (nr int, now text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_queue penstock.queue := penstock.find_queue(release.queue);
    v_held bigint[] := penstock.hold(v_queue.id, release.ids, release.attempts);
begin
    perform penstock.come_back(
        v_queue, v_held, array_fill(0::bigint, array[cardinality(v_held)]),
        coalesce(release.now_ms, penstock.clock_ms()));
    return query select * from penstock.lost(v_queue.id, release.ids, v_held);
end
$$;
