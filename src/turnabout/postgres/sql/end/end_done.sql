-- End leased messages as done, and keep the history that the queue wants. `attempt` null: the
-- caller has locked them; else it is that of their receipts. The arrays hold, per item of `all_ids`
-- or once for all, the lease's start, the result and its type. Answers with the number, and wakes
-- limited channels.
--
-- A nested loop over these lists would be quadratic, and the planner expects short lists.
create or replace function turnabout.end_done(
    queue turnabout.queue, ids bigint[], attempt int, now_ms bigint, all_ids bigint[],
    leased_at bigint[], results bytea[] default null, result_types text[] default null
) returns int language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
declare
    v_ended bigint[]; v_channels text[];
begin
    with gone as (
        delete from turnabout.message m
        where m.id = any (ids) and (end_done.attempt is null or m.attempt = end_done.attempt - 1)
            and m.queue_id + 0 = queue.id
        returning m.*
    ),
    kept as (
        {{history
            leased_at = coalesce(r.leased_at, end_done.leased_at[1]);
            at = now_ms;
            attempt = e.attempt + 1;
            outcome = 1;
            content = r.result, r.result_type, {{payload}};
            ended = gone e
                left join unnest(all_ids, end_done.leased_at, results, result_types)
                    r (id, leased_at, result, result_type)
                    on r.id = e.id
                where queue.history_ms > 0}}
    ),
    noted as (
        insert into turnabout.event (at, message_id, queue_id, attempt, kind, channel, note)
        select now_ms, g.id, queue.id, g.attempt + 1, 'done', g.channel, g.note from gone g
        where queue.events = 'all' order by g.id
    )
    select array_agg(g.id), array_agg(g.channel) into v_ended, v_channels from gone g;
    perform turnabout.give_back_slots(queue, v_ended, v_channels);
    return coalesce(cardinality(v_ended), 0);
end $$;
