-- End leased messages as done, and keep of them what the queue says. `attempt` null: the caller has
-- locked them. `results` and `result_types`, one for each of `all_ids`. Answers with how many, and
-- the limited channels that they leave.
--
-- A nested loop over results would take their number squared, and the planner expects few.
create or replace function turnabout.end_done(
    queue turnabout.queue, ids bigint[], attempt int, now_ms bigint, all_ids bigint[] default null,
    results bytea[] default null, result_types text[] default null, out ended int,
    out channels text[]
)
language plpgsql
set enable_hashjoin = on
set enable_nestloop = off
as $$
declare
    v_payload boolean := queue.history_payload;
begin
    -- Without history, events and limits nothing has to be known of them but their number.
    if queue.history_ms = 0 and queue.events <> 'all' and not queue.limited
        and not exists (select from turnabout.channel c where c.queue_id = queue.id)
    then
        delete from turnabout.message m
        where m.id = any (ids) and (end_done.attempt is null or m.attempt = end_done.attempt)
            and m.status + 0 = 2 and m.queue_id + 0 = queue.id;
        get diagnostics ended = row_count;
        return;
    end if;
    with gone as (
        delete from turnabout.message m
        where m.id = any (ids) and (end_done.attempt is null or m.attempt = end_done.attempt)
            and m.status + 0 = 2 and m.queue_id + 0 = queue.id
        returning m.id, m.sent_at, m.leased_at, m.attempt, m.failures, m.crashes, m.channel,
            m.last_error, m.limited,
            case when v_payload then m.payload end as payload,
            case when v_payload then m.content_type end as content_type,
            case when v_payload then m.headers end as headers
    ),
    kept as (
        insert into turnabout.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel, error, result, result_type, payload, content_type, headers
        )
        select g.id, g.sent_at, g.leased_at, now_ms, queue.id, g.attempt, g.failures, g.crashes, 1,
            g.channel, g.last_error, r.result, r.result_type, g.payload, g.content_type, g.headers
        from gone g
        left join unnest(all_ids, results, result_types) r (id, result, result_type)
            on r.id = g.id
        where queue.history_ms > 0
    ),
    noted as (
        insert into turnabout.event (at, message_id, queue_id, attempt, kind, channel)
        select now_ms, g.id, queue.id, g.attempt, 'done', g.channel
        from gone g
        where queue.events = 'all'
        order by g.id
    )
    select count(*)::int, array_agg(g.channel) filter (where g.limited) into ended, channels
    from gone g;
end
$$;
