-- Take the first messages of channels: up to `takes` from each and `most` in all; skips held ones.
-- `limited`: the side of the line. A shard takes messages without a channel by their ids.
create or replace function turnabout.take_from_channels(
    queue_id int, limited boolean, channels text[], takes int[], most int, now_ms bigint,
    shard int default null, shards int default null
) returns bigint[] language plpgsql as $$
declare
    v_ids bigint[];
begin
    with gone as (
        delete from turnabout.ready r where r.ctid = any (array(
            select head.ctid from unnest(channels, takes) t (channel, take)
            cross join lateral (
                select e.ctid from turnabout.ready e
                where e.queue_id = take_from_channels.queue_id
                    and e.limited = take_from_channels.limited
                    and e.channel = t.channel and e.id + 0 > 0
                    and (e.expires_at is null or e.expires_at > now_ms)
                    and (take_from_channels.shards is null or t.channel <> ''
                        or e.id % take_from_channels.shards = take_from_channels.shard)
                order by e.priority, e.id limit t.take for update skip locked
            ) head
            limit most
        ))
        returning r.id
    )
    select array_agg(g.id) into v_ids from gone g;
    return coalesce(v_ids, '{}');
end $$;
