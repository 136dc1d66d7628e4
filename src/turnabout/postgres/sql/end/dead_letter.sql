-- Apply the queue's `on_exhausted` to messages whose attempts are used up, or that were refused;
-- the caller has ended their leases. Answers with the dead-letter queue's name; '' where they have
-- ended; null where they are blocked.
create or replace function turnabout.dead_letter(
    queue turnabout.queue, ids bigint[], reason text, now_ms bigint
) returns text language plpgsql as $$
declare
    v_dead_letter turnabout.queue; v_others bigint[];
begin
    perform turnabout.give_back_slots(queue, array_agg(m.id), array_agg(m.channel))
    from turnabout.message m where m.id = any (ids);

    -- 1. A blocked one stays, due never: a FIFO channel waits for its head.
    if queue.on_exhausted = 'block' and queue.fifo then
        update turnabout.message m set at = 9000000000000000 where m.id = any (ids);
        perform turnabout.give_places(queue, ids, now_ms);
        if queue.events = 'all' then
            perform turnabout.note_events(queue, ids, 'failed', now_ms);
        end if;
        return null;
    end if;

    -- 2. With one that dies goes what waits in its channel. What others hold stays behind.
    if queue.on_exhausted = 'dead_letter_channel' then
        v_others := turnabout.take_out_channels(queue.id, array(
            select distinct m.channel from turnabout.message m where m.id = any (ids)));
    end if;

    -- 3. Move them, or end them here.
    select * into v_dead_letter from turnabout.queue q
    where q.name = queue.dead_letter and queue.on_exhausted <> 'drop';
    if v_dead_letter.id is null then
        perform turnabout.end_messages(queue, ids || v_others, 2, now_ms);
        return '';
    end if;
    perform turnabout.move_to_dead_letter_queue(queue, v_dead_letter, ids, reason, now_ms);
    if cardinality(v_others) > 0 then
        perform turnabout.move_to_dead_letter_queue(
            queue, v_dead_letter, v_others, 'channel', now_ms);
    end if;
    return v_dead_letter.name;
end $$;
