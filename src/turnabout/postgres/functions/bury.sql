-- Messages whose attempts are used up, or that were refused, and that the caller has locked: what
-- the queue's `on_exhausted` says. Answers with the dead-letter queue's name; '' where they have
-- ended; null where they are blocked.
create or replace function turnabout.bury(
    queue turnabout.queue, ids bigint[], reason text, now_ms bigint
) returns text
language plpgsql as $$
#variable_conflict use_column
declare
    v_grave turnabout.queue;
    v_others bigint[];
begin
    -- 1. A blocked one stays, due never: a FIFO channel waits for its head.
    if queue.on_exhausted = 'block' and queue.fifo then
        update turnabout.message m
        set status = 0, at = 9000000000000000
        where m.id = any (ids);
        perform turnabout.tell(queue, ids);
        if queue.events = 'all' then
            perform turnabout.note_events(queue, ids, 'failed', now_ms);
        end if;
        return null;
    end if;

    -- 2. With one that dies goes what waits in its channel. What others hold stays behind.
    if queue.on_exhausted = 'dead_letter_channel' then
        v_others := turnabout.hold_channels(queue.id, array(
            select distinct m.channel from turnabout.message m where m.id = any (ids)), ids);
    end if;

    -- 3. Move them, or end them here.
    select * into v_grave from turnabout.queue q
    where q.name = queue.dead_letter and queue.on_exhausted <> 'drop';
    if v_grave.id is null then
        perform turnabout.end_messages(queue, ids || v_others, 2, now_ms);
        return '';
    end if;
    perform turnabout.bury_in(queue, v_grave, ids, reason, now_ms);
    if cardinality(v_others) > 0 then
        perform turnabout.bury_in(queue, v_grave, v_others, 'channel', now_ms);
    end if;
    return v_grave.name;
end
$$;
