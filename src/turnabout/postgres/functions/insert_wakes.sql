-- Wake the limited channels of messages that are about to leave them.
create or replace function turnabout.insert_wakes(queue turnabout.queue, ids bigint[]) returns void
language sql as $$
    insert into turnabout.wake (queue_id, channel)
    select distinct queue.id, m.channel
    from turnabout.message m
    where m.id = any (ids) and m.limited::int = 1  -- not by the index of limited messages
$$;
