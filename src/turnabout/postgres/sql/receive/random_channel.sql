-- A channel with something ready, anywhere in the queue: that of a message near a random id. Null
-- if none was met; a hint, nothing more.
create or replace function turnabout.random_channel(queue_id int) returns text
language plpgsql as $$
declare
    v_last bigint := pg_sequence_last_value('turnabout.message_id_seq'::regclass);
    v_id bigint; v_channel text;
begin
    -- Backlogs differ by orders of magnitude, so the distance to the last id does, too.
    for i in 1 .. 4 loop
        v_id := v_last - (10 ^ (1 + 5 * random()))::bigint;
        select near.channel into v_channel from (
            select m.queue_id, m.channel from turnabout.message m
            where m.id between greatest(v_id, 1) and v_id + 50 order by m.id limit 20
        ) near
        where near.queue_id = random_channel.queue_id and exists (
            select from turnabout.ready r
            where r.queue_id = near.queue_id and not r.limited and r.channel = near.channel
        )
        limit 1;
        exit when found;
    end loop;
    return v_channel;
end $$;
