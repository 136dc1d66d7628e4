-- Take waiting messages out of these channels, like take_out_messages; skips those held by others.
create or replace function turnabout.take_out_channels(queue_id int, channels text[])
returns bigint[] language sql as $$
    with gone as (
        delete from turnabout.ready r where r.ctid = any (array(
            select e.ctid from unnest(channels) c (name)
            cross join unnest(array[false, true]) side (limited)
            join turnabout.ready e on e.queue_id = take_out_channels.queue_id
                and e.limited = side.limited and e.channel = c.name and e.id + 0 > 0
            for update of e skip locked
        ))
        returning r.id
    ),
    gone_later as (
        delete from turnabout.scheduled s where s.ctid = any (array(
            select e.ctid from turnabout.scheduled e
            where e.queue_id = take_out_channels.queue_id and e.channel = any (channels)
            for update skip locked
        ))
        returning s.id
    )
    select array(select g.id from gone g union all select g.id from gone_later g)
$$;
