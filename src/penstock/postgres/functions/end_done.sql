-- End acked messages where there is more to keep than the count: results, payloads, events.
-- `attempt` null: the caller has locked them. Answers with how many, and the limited channels that
-- they leave.
create or replace function penstock.end_done(
    queue penstock.queue, ids bigint[], attempt int, all_ids bigint[], results bytea[],
    result_types text[], now_ms bigint, out ended int, out channels text[]
)
language plpgsql as $$
#variable_conflict use_column
begin
    with gone as (
        delete from penstock.message m
        where m.id = any (ids) and (end_done.attempt is null or m.attempt = end_done.attempt)
            and m.status + 0 = 2 and m.queue_id + 0 = queue.id
        returning m.*
    ),
    kept as (
        insert into penstock.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel, error, result, result_type, payload, content_type, headers
        )
        select g.id, g.sent_at, g.leased_at, now_ms, queue.id, g.attempt, g.failures, g.crashes, 1,
            g.channel, g.last_error, r.result, r.result_type,
            case when queue.history_payload then g.payload end,
            case when queue.history_payload then g.content_type end,
            case when queue.history_payload then g.headers end
        from gone g
        left join unnest(all_ids, results, result_types) r (id, result, result_type)
            on r.id = g.id
        where queue.history_ms > 0
    ),
    told as (
        insert into penstock.event (at, message_id, queue_id, attempt, kind, channel)
        select now_ms, g.id, queue.id, g.attempt, 'done', g.channel
        from gone g
        where queue.events = 'all'
        order by g.id
    )
    select count(*)::int, array_agg(g.channel) filter (where g.limited) into ended, channels
    from gone g;
end
$$;
