-- Take from limited channels whose rows the caller has locked: up to `takes` from each and `most`
-- in all, as far as concurrency, rate and order allow. Then put to sleep the rows that have nothing
-- to give, and drop those that nothing remembers. `taken`: what the same receive has before.
--
-- The lock came in an earlier statement: what it protects is read here, as of now. A row is put to
-- sleep only if nothing could be taken for a reason that will wake it: an end of a lease, a
-- send, a point in time. If in doubt it stays awake.
create or replace function turnabout.take_from_limited_channels(
    queue turnabout.queue, channels text[], takes int[], most int, now_ms bigint,
    taken bigint[] default '{}'
) returns bigint[] language plpgsql as $$
declare
    v_now_us bigint := now_ms * 1000;
    v_ids bigint[];
begin
    -- 1. What was sent before there was a row.
    perform turnabout.move_leftovers(queue.id, channels, 100 + most);

    -- 2. What each may give now, and its heads. A slot is a live lease: they are counted, not kept.
    with gone as (
        delete from turnabout.ready r where r.ctid = any (array(
            select head.ctid from (
                select c.name,
                    case when coalesce(c.paused or c.paused_until > now_ms, false) or exists (
                        select from turnabout.wake w  -- its policy is another one by now
                        where w.queue_id = queue.id and w.channel = c.name and w.policy is not null
                    ) then 0 else least(
                        t.take, turnabout.free_slots(queue, c.name, c.max_concurrency, taken),
                        turnabout.free_tokens(
                            v_now_us, c.rate_tat_us,
                            case when c.rate_count is null then queue.rate_interval_us
                                else c.rate_interval_us end,
                            case when c.rate_count is null then queue.rate_burst
                                else c.rate_burst end)
                    ) end as allowance
                from unnest(channels, takes) t (name, take)
                cross join lateral (
                    select o.* from turnabout.channel o
                    where o.queue_id = queue.id and o.name = t.name offset 0
                ) c
            ) a
            cross join lateral (
                -- The heads are chosen first and locked then. Of a FIFO queue they are these or
                -- none: the first ones, up to the first that is not due or that another holds.
                select l.ctid from (
                    select e.ctid, h.nr, row_number() over (order by h.nr) as locked
                    from unnest(array(
                        select x.ctid from turnabout.ready x
                        where x.queue_id = queue.id and x.limited and x.channel = a.name
                            and (x.expires_at is null or x.expires_at > now_ms)
                        order by x.priority, x.id limit greatest(0, a.allowance)
                    )) with ordinality h (ctid, nr)
                    cross join lateral (
                        select r.ctid from turnabout.ready r
                        where r.ctid = h.ctid and (r.at is null or r.at <= now_ms)
                        for update skip locked
                    ) e
                ) l
                where not queue.fifo or l.locked = l.nr
                order by l.nr  -- `most` may be fewer than its share
            ) head
            limit most
        ))
        returning r.id
    )
    select array_agg(g.id) into v_ids from gone g;

    -- 3. Each has a slot now.
    perform turnabout.settle_channels(
        queue, channels, turnabout.give_slots(queue.id, v_ids), now_ms);
    return coalesce(v_ids, '{}');
end $$;
