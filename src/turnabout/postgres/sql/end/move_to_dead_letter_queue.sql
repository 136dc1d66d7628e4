-- Move messages that are the caller's to a dead-letter queue, with their error history.
create or replace function turnabout.move_to_dead_letter_queue(
    queue turnabout.queue, target turnabout.queue, ids bigint[], reason text, now_ms bigint
) returns void
language plpgsql as $$
declare
    v_ids bigint[];
    v_origins text[];
begin
    if queue.events = 'all' then
        perform turnabout.note_events(queue, ids, 'dead', now_ms);
    end if;
    if coalesce(queue.history_failed_ms, queue.history_ms) > 0 then
        insert into turnabout.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel, error, payload, content_type, headers
        )
        select m.id, m.sent_at, m.leased_at, now_ms, queue.id, m.attempt, m.failures, m.crashes,
            2, m.channel, m.last_error,
            case when queue.history_payload then m.payload end,
            case when queue.history_payload then turnabout.type_of(m.content_type) end,
            case when queue.history_payload then m.headers end
        from turnabout.message m
        where m.id = any (ids);
    end if;
    insert into turnabout.tally (queue_id, dead) values (queue.id, cardinality(ids));

    select array_agg(m.id), array_agg(json_build_object(
        'queue', queue.name, 'reason', reason, 'failures', m.failures,
        'crashes', m.crashes, 'died_at', now_ms, 'first_error', m.first_error,
        'last_error', m.last_error,
        'redrives', coalesce((m.origin::json ->> 'redrives')::int, 0)
    )::text)
    into v_ids, v_origins
    from turnabout.message m
    where m.id = any (ids);
    perform turnabout.move_messages(target, v_ids, v_origins, now_ms);
end
$$;
