-- Move messages that are the caller's to a dead-letter queue, with their error history.
create or replace function turnabout.move_to_dead_letter_queue(
    queue turnabout.queue, target turnabout.queue, ids bigint[], reason text, now_ms bigint
) returns void language plpgsql as $$
declare
    v_ids bigint[]; v_origins text[];
begin
    if queue.events = 'all' then perform turnabout.note_events(queue, ids, 'dead', now_ms); end if;
    perform turnabout.keep_history(queue, ids, 2, now_ms);
    insert into turnabout.tally (queue_id, dead) values (queue.id, cardinality(ids));

    select array_agg(m.id), array_agg(json_build_object(
        'queue', queue.name, 'reason', reason, 'failures', m.failures,
        'crashes', m.crashes, 'died_at', now_ms,
        'first_error', m.errors::json -> 0 ->> 'error', 'last_error', m.last_error,
        'errors', coalesce(m.errors, '[]')::json,
        'redrives', coalesce((m.origin::json ->> 'redrives')::int, 0)
    )::text)
    into v_ids, v_origins
    from turnabout.message m where m.id = any (ids);
    perform turnabout.move_messages(target, v_ids, v_origins, now_ms);
end $$;
