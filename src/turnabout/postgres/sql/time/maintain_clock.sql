-- Instants that lie further ahead than they can be, since the server's clock was set back: a lease
-- runs as long as it did before, a bucket owes no more than it holds, and a delay lasts as long as
-- was said. (Others' readings of the clock may be somewhat newer than this one.)
create or replace function turnabout.maintain_clock(queue turnabout.queue, now_ms bigint)
returns void language plpgsql as $$
declare
    v_latest bigint := now_ms + 10000;
begin
    -- 1. Leases, if one of those that end last was made later than now.
    if now_ms + 10000 < (
        select max(l.leased_at) from (
            select o.leased_at from turnabout.lease o where o.queue_id = queue.id
            order by o.until desc limit 100
        ) l
    ) then
        with back as (
            select o.id, o.leased_at - now_ms as by from turnabout.lease o
            where o.queue_id = queue.id and o.leased_at > v_latest for update skip locked
        ),
        leases as (
            update turnabout.lease l
            set until = l.until - back.by, rest_until = l.rest_until - back.by, leased_at = now_ms
            from back where l.id = back.id
        )
        update turnabout.extension e set until = e.until - back.by
        from back where e.lease = back.id;
    end if;

    -- 2. Buckets of channels that sleep for that reason, and of the queue.
    update turnabout.channel c
    set rate_tat_us = now_ms * 1000 + c.rate_depth_us, awake = true, wake_at = null
    where c.ctid = any (array(
        select held.ctid from (
            select s.name from turnabout.channel s
            where s.queue_id = queue.id and s.wake_at > v_latest order by s.wake_at desc limit 100
        ) last
        cross join lateral (
            select o.ctid from turnabout.channel o
            where o.queue_id = queue.id and o.name = last.name
                and o.rate_tat_us > v_latest * 1000 + o.rate_depth_us
            for update skip locked
        ) held
    ));

    update turnabout.queue_limit l set rate_tat_us = now_ms * 1000 + l.rate_depth_us
    where l.ctid = (
        select o.ctid from turnabout.queue_limit o
        where o.queue_id = queue.id and o.rate_tat_us > v_latest * 1000 + o.rate_depth_us
        for update skip locked
    );

    -- 3. Delays: of a FIFO channel that sleeps, the head's.
    with late as (
        update turnabout.scheduled s set at = now_ms + s.at - s.since, since = now_ms
        where s.ctid = any (array(
            select o.ctid from turnabout.scheduled o
            where o.queue_id = queue.id and o.since > v_latest limit 1000 for update skip locked
        ))
        returning s.id, s.at
    ),
    heads as (
        update turnabout.ready r set at = now_ms + r.at - held.since
        from (
            select o.id, greatest(m.sent_at, m.leased_at) as since from (
                select s.name from turnabout.channel s
                where queue.fifo and s.queue_id = queue.id and s.wake_at > v_latest
                order by s.wake_at desc limit 100
            ) last
            join turnabout.ready o on o.queue_id = queue.id and o.limited and o.channel = last.name
            join turnabout.message m on m.id = o.id
            where o.at > v_latest and greatest(m.sent_at, m.leased_at) > v_latest
            for update of o skip locked
        ) held
        where r.id = held.id and r.queue_id = queue.id and r.limited returning r.id, r.at, r.channel
    ),
    awake as (
        insert into turnabout.wake (queue_id, channel) select queue.id, h.channel from heads h
    )
    update turnabout.message m
    set at = l.at, sent_at = least(m.sent_at, now_ms), leased_at = least(m.leased_at, now_ms)
    from (select l.id, l.at from late l union all select h.id, h.at from heads h) l
    where m.id = l.id;
end $$;
