-- Move messages that were sent before their channel became limited to the limited side: the first
-- `most` ready ones of each channel, in its order. A bounded share, so that setting a policy on a
-- channel with a million messages costs nobody a million writes at once.
create or replace function turnabout.move_over(queue_id int, channels text[], most int) returns void
language plpgsql as $$
begin
    -- Head marks of the skip scan: nobody will look for these channels there any more.
    delete from turnabout.ready r where r.ctid = any (array(
        select b.ctid from unnest(channels) o (channel)
        cross join lateral (
            select e.ctid from turnabout.ready e
            where e.queue_id = move_over.queue_id and not e.limited and e.channel = o.channel
                and e.id < 0
            for update skip locked
        ) b
    ));

    with moved as (
        update turnabout.ready r set limited = true where r.ctid = any (array(
            select head.ctid from unnest(channels) o (channel)
            cross join lateral (
                select e.ctid from turnabout.ready e
                where e.queue_id = move_over.queue_id and not e.limited and e.channel = o.channel
                    and e.id + 0 > 0
                order by e.priority, e.id limit most for update skip locked
            ) head
        ))
        returning r.channel
    )
    insert into turnabout.wake (queue_id, channel)
    select distinct move_over.queue_id, d.channel from moved d;
end $$;
