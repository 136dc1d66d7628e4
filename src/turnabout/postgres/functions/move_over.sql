-- Move messages that were sent before their channel became limited to the limited side: the first
-- `most` ready ones of each channel, in its order. A bounded share, so that setting a policy on a
-- channel with a million messages costs nobody a million writes at once.
create or replace function turnabout.move_over(queue_id int, channels text[], most int) returns void
language plpgsql as $$
begin
    -- Head marks of the skip scan: nobody will look for these channels there any more.
    delete from turnabout.message m
    where m.id = any (array(
        select b.id
        from unnest(channels) o (channel)
        cross join lateral (
            select r.id from turnabout.message r
            where r.queue_id = move_over.queue_id and r.channel = o.channel
                and r.status = 0 and not r.limited and r.id < 0
            for update skip locked
        ) b
    ));

    with moved as (
        update turnabout.message m
        set limited = true
        where m.id = any (array(
            select head.id
            from unnest(channels) o (channel)
            cross join lateral (
                select r.id from turnabout.message r
                where r.queue_id = move_over.queue_id and r.channel = o.channel
                    and r.status = 0 and not r.limited and r.id + 0 > 0
                order by r.priority, r.id
                limit most
                for update skip locked
            ) head
        ))
        returning m.channel
    )
    insert into turnabout.wake (queue_id, channel)
    select distinct move_over.queue_id, d.channel from moved d;
end
$$;
