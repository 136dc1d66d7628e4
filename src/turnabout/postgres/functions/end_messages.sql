-- End messages that the caller has locked: history, events, counts, wakes of limited channels.
-- outcome: 2 dead, 3 cancelled, 4 expired; ack has its own way. Answers with how many.
create or replace function turnabout.end_messages(
    queue turnabout.queue, ids bigint[], outcome int, now_ms bigint
) returns int
language plpgsql as $$
declare
    v_count int;
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
            case when queue.history_payload then g.content_type end,
            case when queue.history_payload then g.headers end
        from gone g
        where coalesce(queue.history_failed_ms, queue.history_ms) > 0
    ),
    noted as (
        insert into turnabout.wake (queue_id, channel)
        select distinct g.queue_id, g.channel from gone g where g.limited
    )
    select count(*)::int into v_count from gone;
    if v_count > 0 then
        insert into turnabout.tally (queue_id, dead, cancelled, expired)
        values (
            queue.id, v_count * (outcome = 2)::int, v_count * (outcome = 3)::int,
            v_count * (outcome = 4)::int
        );
    end if;
    return v_count;
end
$$;
