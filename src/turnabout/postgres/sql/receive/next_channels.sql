-- The next channels of the turn and how many messages to take from each: names after `from_place`,
-- around the end of the names once, up to `start`, until `left_over` messages are spoken for
-- `boost` times. Names above `start` are lap 0, the others lap 1. `is_end`: the turn is over with
-- these. `served`: how much of its turn (`quantum` times its weight) the last channel has had then.
--
-- `kinds`: `open` has no row, `free` one that limits nothing, `limited` any other: that is locked;
-- rows that others hold are passed over. Every shard has the channel without a name where it is
-- open: its messages are shared out by their ids.
create or replace function turnabout.next_channels(
    queue turnabout.queue, start text, from_place text, from_lap int, left_over int, boost int,
    quantum int, limits boolean, now_ms bigint, shard int, shards int
) returns table (
    names text[], takes int[], kinds text[], served int, place text, lap int, is_end boolean
) language plpgsql as $$
declare
    v_visits int := least((left_over * boost + quantum - 1) / quantum, left_over + 500);
    v_open text[];
    v_leftovers text[] := '{}';
    v_held text[] := '{}';
    v_all text[]; v_kinds text[]; v_weights int[]; v_visited int;
    v_times int := quantum;
    v_more int := 0;  -- how many of weight 1 have one message more
begin
    -- 1. The skip scan. Each step is one index probe for the first entry after a channel; at the
    --    end of the names it goes on at their start. A name beyond `start` then ends the turn: that
    --    is tested outside the probe, where it cannot turn into a filter that walks every entry.
    with recursive hop (channel, lap, nr) as (
        select from_place collate "C", from_lap, 0
        union all
        select next.channel, next.lap,
            hop.nr + (
                shards is null or next.channel = ''
                or turnabout.shard_of(next.channel, shards) = shard
            )::int
        from hop
        cross join lateral (
            ({{entry what = r.channel, hop.lap; queue = queue.id; after = > hop.channel}})
            union all
            ({{entry what = r.channel, 1; queue = queue.id; after = >= '' and hop.lap = 0}}) limit 1
        ) next
        where hop.nr < v_visits and (next.lap = 0 or next.channel <= start collate "C")
    )
    select array_agg(hop.channel order by hop.lap, hop.channel) into v_open from hop
    where hop.nr > 0 and (hop.lap > from_lap or hop.channel > from_place collate "C")
        and (shards is null or hop.channel = '' or turnabout.shard_of(hop.channel, shards) = shard);

    if limits then
        -- 2. Leftovers: messages sent before their channel became limited. They move over.
        select coalesce(array_agg(o.channel), '{}') into v_leftovers from unnest(v_open) o (channel)
        where queue.limited
            or (
                select 1 from turnabout.channel c where c.queue_id = queue.id and c.name = o.channel
            ) is not null
            or exists (
                select from turnabout.wake w
                where w.queue_id = queue.id and w.channel = o.channel and w.policy is not null
            );
        if cardinality(v_leftovers) > 0 then
            perform turnabout.move_over(queue.id, v_leftovers, 100);
            perform turnabout.wake_channels(queue.id, now_ms);
        end if;
    end if;

    -- 3. Merge with the limited channels that are awake, in order of names.
    select array_agg(v.name order by v.lap, v.name), array_agg(v.kind order by v.lap, v.name),
        array_agg(v.weight order by v.lap, v.name)
    into v_all, v_kinds, v_weights
    from (
        -- A channel whose leftovers have moved over comes once, as a limited one: the turn must not
        -- stand behind it before it was served.
        select distinct on (4, 1) u.name, u.kind, u.weight,
            (u.name <= start collate "C")::int as lap
        from (
            select o.name, case when o.name = any (v_leftovers) then 'leftover' else 'open' end, 1
            from unnest(v_open) o (name)
            union all
            select after.* from (
                select c.name,
                    case when turnabout.has_limits(queue, c) then 'limited' else 'free' end,
                    coalesce(c.weight, queue.weight, 1)
                from turnabout.channel c
                where limits and c.queue_id = queue.id and c.awake_name > from_place collate "C"
                    and (from_lap = 0 or c.awake_name <= start collate "C")
                    and (shards is null or turnabout.shard_of(c.name, shards) = shard)
                order by c.awake_name limit v_visits
            ) after
            union all
            select wrapped.* from (
                select c.name,
                    case when turnabout.has_limits(queue, c) then 'limited' else 'free' end,
                    coalesce(c.weight, queue.weight, 1)
                from turnabout.channel c
                where limits and from_lap = 0 and c.queue_id = queue.id
                    and c.awake_name <= start collate "C"
                    and (shards is null or turnabout.shard_of(c.name, shards) = shard)
                order by c.awake_name limit v_visits
            ) wrapped
        ) u (name, kind, weight)
        order by 4, 1, u.kind = 'leftover' limit v_visits
    ) v;
    is_end := coalesce(cardinality(v_all), 0) < v_visits;
    if v_all is null then
        return next;
        return;
    end if;

    -- 4. Lock the rows; what they protect is read by the caller's next statement.
    if 'limited' = any (v_kinds) then
        select coalesce(array_agg(held.name), '{}') into v_held
        from unnest(v_all, v_kinds) a (name, kind)
        cross join lateral (
            select c.name from turnabout.channel c
            where c.queue_id = queue.id and c.name = a.name and c.awake for update skip locked
        ) held
        where a.kind = 'limited';
    end if;

    -- 5. Shares: quantum times weight; with the whole turn in sight, what is left by weight. They
    --    end where nothing is left, and there the turn goes on. A FIFO channel is closed once it
    --    has given, so there the remainder is shared out, too, and the turn goes on behind it.
    if is_end then
        select greatest(1, left_over / sum(w.weight)),
            case when queue.fifo and left_over > sum(w.weight) then left_over % sum(w.weight)
                else 0 end
        into v_times, v_more
        from unnest(v_weights) w (weight);
    end if;
    select array_agg(t.name) filter (where t.is_given), array_agg(t.take) filter (where t.is_given),
        array_agg(t.kind) filter (where t.is_given), count(*)::int,
        (array_agg(t.name order by v_more > t.earlier desc, t.nr desc))[1],
        (array_agg(quantum * t.weight - (t.wish - t.take)
            order by v_more > t.earlier desc, t.nr desc))[1]
    into names, takes, kinds, v_visited, place, served
    from (
        select a.nr, a.name, a.kind, a.weight, a.wish, a.earlier,
            least(a.wish, left_over * boost - a.before, left_over)::int as take,
            a.kind in ('open', 'free') or a.kind = 'limited' and a.name = any (v_held) as is_given
        from (
            select u.*, u.earlier * v_times + least(u.earlier, v_more) as before,
                u.weight * v_times + least(u.weight, greatest(0, v_more - u.earlier)) as wish
            from (
                select n.*, coalesce(sum(n.weight) over (
                    order by n.nr rows between unbounded preceding and 1 preceding
                ), 0) as earlier
                from unnest(v_all, v_kinds, v_weights) with ordinality n (name, kind, weight, nr)
            ) u
        ) a
        where a.before < left_over * boost
    ) t;
    lap := (place <= start collate "C")::int;
    is_end := is_end and v_visited = cardinality(v_all);
    return next;
end $$;
