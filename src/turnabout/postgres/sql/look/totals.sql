-- Counts of all queues or of a namespace's, by name, without a look at their messages: from the
-- tally alone. The age of what is ready is that of the first ones (see oldest_of), and of leases
-- that have run out while nobody looked the first thousand are counted. With `measure`, the bytes
-- of unfinished payloads, too: that reads every message, but no payload that is stored aside.
create or replace function turnabout.totals(
    namespace text default null, measure boolean default false,
    now_ms turnabout.instant default null
) returns table (
    name text, sent bigint, done bigint, dead bigint, cancelled bigint, expired bigint,
    oldest_ready_ms bigint, ran_out bigint, bytes bigint
) language plpgsql stable as $$  -- plans: free
declare
    v_now bigint := coalesce(totals.now_ms, turnabout.clock_ms());
    v_queues int[] := array(select q.id from turnabout.queue_list(null, totals.namespace) q);
begin
    return query
    select q.name::text, coalesce(t.sent, 0), coalesce(t.done, 0), coalesce(t.dead, 0),
        coalesce(t.cancelled, 0), coalesce(t.expired, 0), v_now - turnabout.oldest_of(q.id, v_now),
        (
            select count(*) from (
                select l.* from turnabout.lease l where l.queue_id = q.id and l.until <= v_now
                order by l.until limit 1000
            ) o
            cross join unnest(o.ids, o.attempts) t (id, attempt)
            join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
            where {{ends_at message = t.id; lease = o}} <= v_now
        ),
        case when totals.measure then coalesce(b.bytes, 0) end
    from turnabout.queue q left join turnabout.counts_of(v_queues) t on t.queue_id = q.id
    left join turnabout.bytes_of(case when totals.measure then v_queues end) b on b.queue_id = q.id
    where q.id = any (v_queues) order by q.name;
end $$;
