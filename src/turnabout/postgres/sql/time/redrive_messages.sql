-- Move messages of a redrive, which the caller has locked, each to its queue. The queue they leave
-- no longer counts them as sent. Answers with the names of the queues they went to.
create or replace function turnabout.redrive_messages(
    redrive turnabout.redrive, ids bigint[], now_ms bigint
) returns text[] language plpgsql as $$
declare
    v_to record;
    v_names text[] := '{}';
begin
    perform turnabout.take_out_messages(redrive.queue_id, ids);
    perform turnabout.give_back_slots(
        (select q from turnabout.queue q where q.id = redrive.queue_id),
        array_agg(m.id), array_agg(m.channel))
    from turnabout.message m where m.id = any (ids);
    insert into turnabout.tally (queue_id, sent) values (redrive.queue_id, -cardinality(ids));
    for v_to in
        select a.target, array_agg(a.id) as ids, array_agg(a.origin) as origins from (
            select m.id, turnabout.redrive_target(redrive, m.channel, m.origin) as target,
                (m.origin::jsonb || jsonb_build_object(
                    'redrives', coalesce((m.origin::jsonb ->> 'redrives')::int, 0) + 1
                ))::text as origin
            from turnabout.message m where m.id = any (redrive_messages.ids)
        ) a
        group by a.target
    loop
        perform turnabout.move_messages(
            turnabout.find_queue(v_to.target), v_to.ids, v_to.origins, now_ms);
        v_names := v_names || v_to.target;
    end loop;
    return v_names;
end $$;
