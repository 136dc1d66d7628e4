-- Lock what waits in these channels, but for `ids`; what others hold is skipped. Three statements,
-- as ready, scheduled and limited messages stand in three indexes.
create or replace function turnabout.lock_waiting_in_channels(
    queue_id int, channels text[], ids bigint[]
)
returns bigint[]
language sql as $$
    select array(
        select m.id from unnest(channels) c (name)
        join turnabout.message m on m.channel = c.name
        where m.queue_id = lock_waiting_in_channels.queue_id and m.status = 0 and not m.limited
            and m.id + 0 > 0 and m.id <> all (ids)
        for update of m skip locked
    ) || array(
        select m.id from unnest(channels) c (name)
        join turnabout.message m on m.channel = c.name
        where m.queue_id = lock_waiting_in_channels.queue_id and m.limited and m.status in (0, 1)
            and m.id <> all (ids)
        for update of m skip locked
    ) || array(
        select m.id from turnabout.message m
        where m.queue_id = lock_waiting_in_channels.queue_id and m.status > 0 and m.status = 1
            and not m.limited and m.channel = any (channels)
        for update of m skip locked
    )
$$;
