-- The next channels of the turn: up to `visits` names after `from_place`, around the end of the names
-- once, up to `start`. Names above `start` are lap 0, the others lap 1; in the answer, `place` is the
-- last name visited, and `lap` is null when the turn is over.
--
-- Limited channels in the answer have their rows locked; rows that others hold are passed over.
create or replace function penstock.next_channels(
    queue penstock.queue,
    start text,
    from_place text,
    from_lap int,
    visits int,
    limits boolean,
    now_ms bigint,
    shard int,
    shards int
) returns table (open text[], limited text[], place text, lap int)
language plpgsql as $$
#variable_conflict use_column
declare
    v_strays text[];
begin
    -- 1. The skip scan. Each step is one index probe for the first entry after a channel; at the
    --    end of the names it goes on at their start. A name beyond `start` then ends the turn: that
    --    is tested outside the probe, where it cannot turn into a filter that walks every entry.
    with recursive hop (channel, lap, nr) as (
        select from_place collate "C", from_lap, 0
        union all
        select next.channel, next.lap,
            hop.nr + (shards is null or penstock.shard_of(next.channel, shards) = shard)::int
        from hop
        cross join lateral (
            (select m.channel, hop.lap from penstock.message m
            where m.queue_id = queue.id and m.status = 0 and not m.limited
                and m.channel > hop.channel
            order by m.channel limit 1)
            union all
            (select m.channel, 1 from penstock.message m
            where hop.lap = 0 and m.queue_id = queue.id and m.status = 0 and not m.limited
            order by m.channel limit 1)
            limit 1
        ) next
        where hop.nr < visits and (next.lap = 0 or next.channel <= start collate "C")
    )
    select array_agg(hop.channel) filter (
            where shards is null or penstock.shard_of(hop.channel, shards) = shard
        ),
        (array_agg(hop.channel order by hop.lap desc, hop.channel desc))[1],
        case when max(hop.nr) >= visits then max(hop.lap) end
    into open, place, lap
    from hop
    where hop.nr > 0 or hop.channel <> from_place;
    if not limits then
        return next;
        return;
    end if;

    -- 2. Strays: messages sent before their channel became limited. They move over.
    select array_agg(o.channel) into v_strays
    from unnest(open) o (channel)
    where queue.limited
        or exists (
            select from penstock.channel c where c.queue_id = queue.id and c.name = o.channel
        )
        or exists (
            select from penstock.wake w
            where w.queue_id = queue.id and w.channel = o.channel and w.policy is not null
        );
    if v_strays is not null then
        perform penstock.move_over(queue.id, v_strays, 100);
        perform penstock.wake_channels(queue.id, now_ms);
    end if;

    -- 3. Merge with the limited channels that are awake, in order of names.
    select array_agg(v.name) filter (where v.kind = 'open'),
        array_agg(v.name) filter (where v.kind = 'limited'),
        (array_agg(v.name order by v.lap desc, v.name desc))[1],
        case when count(*) >= visits then max(v.lap) end
    into open, limited, place, lap
    from (
        select u.name, u.kind, (u.name <= start collate "C")::int as lap
        from (
            select o.name, case when o.name = any (v_strays) then 'stray' else 'open' end as kind
            from unnest(open) o (name)
            union all
            select after.name, 'limited' from (
                select c.name from penstock.channel c
                where c.queue_id = queue.id and c.awake and c.name > from_place collate "C"
                    and (from_lap = 0 or c.name <= start collate "C")
                    and (shards is null or penstock.shard_of(c.name, shards) = shard)
                order by c.name limit visits
            ) after
            union all
            select again.name, 'limited' from (
                select c.name from penstock.channel c
                where from_lap = 0 and c.queue_id = queue.id and c.awake
                    and c.name <= start collate "C"
                    and (shards is null or penstock.shard_of(c.name, shards) = shard)
                order by c.name limit visits
            ) again
        ) u (name, kind)
        order by 3, 1
        limit visits
    ) v;

    -- 4. Lock the rows; what they protect is read by the caller's next statement.
    if limited is not null then
        select array_agg(held.name) into limited
        from (
            select c.name from penstock.channel c
            where c.queue_id = queue.id and c.name = any (limited) and c.awake
            for update skip locked
        ) held;
    end if;
    return next;
end
$$;
