-- End messages that are the caller's (locked, or taken from where they stood): history, events,
-- counts, slots and wakes of limited channels.
-- outcome: 2 dead, 3 cancelled, 4 expired; ack has its own way. Answers with how many.
create or replace function turnabout.end_messages(
    queue turnabout.queue, ids bigint[], outcome int, now_ms bigint
) returns int
language plpgsql as $$
declare
    v_count int;
    v_ids bigint[];
    v_channels text[];
begin
    if queue.events = 'all' then
        perform turnabout.note_events(
            queue, ids, (array['done', 'dead', 'cancelled', 'expired'])[outcome], now_ms);
    end if;
    with gone as (
        delete from turnabout.message m where m.id = any (ids) returning m.*
    ),
    kept as (
        insert into turnabout.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel, error, payload, content_type, headers
        )
        select g.id, g.sent_at, g.leased_at, now_ms, g.queue_id, g.attempt, g.failures, g.crashes,
            end_messages.outcome, g.channel, g.last_error,
            case when queue.history_payload then g.payload end,
            case when queue.history_payload then turnabout.type_of(g.content_type) end,
            case when queue.history_payload then g.headers end
        from gone g
        where coalesce(queue.history_failed_ms, queue.history_ms) > 0
    )
    select count(*)::int, array_agg(g.id), array_agg(g.channel) into v_count, v_ids, v_channels
    from gone g;
    perform turnabout.give_back_slots(queue, v_ids, v_channels);
    if v_count > 0 then
        insert into turnabout.tally (queue_id, dead, cancelled, expired)
        values (
            queue.id,
            case when outcome = 2 then v_count end,
            case when outcome = 3 then v_count end,
            case when outcome = 4 then v_count end
        );
    end if;
    return v_count;
end
$$;
