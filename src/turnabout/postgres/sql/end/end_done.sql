-- End leased messages as done, and keep of them what the queue says. `attempt` null: the caller has
-- locked them; else it is that of their receipts. For each of `all_ids`, or for all: when it was
-- leased, its result and the result's type. Answers with how many, and wakes limited channels.
--
-- A nested loop over these lists would take their number squared, and the planner expects few.
create or replace function turnabout.end_done(
    queue turnabout.queue, ids bigint[], attempt int, now_ms bigint, all_ids bigint[],
    leased_at bigint[], results bytea[] default null, result_types text[] default null
) returns int
language plpgsql
set enable_hashjoin = on
set enable_nestloop = off
as $$
declare
    v_payload boolean := queue.history_payload;
    v_ended bigint[];
    v_channels text[];
begin
    with gone as (
        delete from turnabout.message m
        where m.id = any (ids)
            and (end_done.attempt is null or m.attempt = end_done.attempt - 1)
            and m.queue_id + 0 = queue.id
        returning m.id, m.sent_at, m.attempt + 1 as attempt, m.failures, m.crashes, m.channel,
            m.last_error,
            case when v_payload then m.payload end as payload,
            case when v_payload then turnabout.type_of(m.content_type) end as content_type,
            case when v_payload then m.headers end as headers
    ),
    kept as (
        insert into turnabout.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel, error, result, result_type, payload, content_type, headers
        )
        select g.id, g.sent_at, coalesce(r.leased_at, end_done.leased_at[1]), now_ms, queue.id,
            g.attempt, g.failures, g.crashes, 1, g.channel, g.last_error, r.result, r.result_type,
            g.payload, g.content_type, g.headers
        from gone g
        left join unnest(all_ids, end_done.leased_at, results, result_types)
            r (id, leased_at, result, result_type)
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
    select array_agg(g.id), array_agg(g.channel) into v_ended, v_channels from gone g;
    perform turnabout.give_back_slots(queue, v_ended, v_channels);
    return coalesce(cardinality(v_ended), 0);
end
$$;
