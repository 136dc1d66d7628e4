-- End leases that ran out, about `most` messages of them: each is charged as a crash, and becomes
-- ready or dies, or ends as cancelled if that was requested. Settled messages no longer belong to
-- the lease. Messages that were extended, or are locked, stay in it.
--
-- Leases and messages are locked first, and only then is it read how long they run: what was
-- extended a moment ago runs on. (`+ 0` keeps that column out of the choice of an index: in a small
-- table the planner would rather read all that is due, dead entries of an old snapshot included.)
create or replace function turnabout.end_leases_due(
    queue turnabout.queue, now_ms bigint, most int
) returns void language plpgsql as $$
declare
    v_leases bigint[]; v_held bigint[]; v_held_by bigint[]; v_leased_at bigint[];
    v_rest_until bigint[]; v_until bigint[]; v_ids bigint[]; v_channels text[]; v_back bigint[];
    v_dead bigint[];
    v_worn bigint[];  -- delivered as often as they may be
    v_unwanted bigint[];
begin
    -- 1. The leases.
    v_leases := array(
        select l.id from (
            select o.id, sum(cardinality(o.ids)) over (order by o.until, o.id)
                - cardinality(o.ids) as before
            from (
                select e.id, e.until, e.ids from turnabout.lease e
                where e.queue_id = queue.id and e.until <= now_ms and e.until > queue.timers_since
                order by e.until limit most
            ) o
        ) due
        join turnabout.lease l on l.id = due.id where due.before < most for update of l skip locked
    );
    v_leases := array(
        select l.id from turnabout.lease l where l.id = any (v_leases) and l.until + 0 <= now_ms
    );
    if cardinality(v_leases) = 0 then return; end if;

    -- 2. Their messages, but for those that run longer.
    select array_agg(h.id), array_agg(h.lease), array_agg(h.leased_at), array_agg(h.rest_until),
        array_agg(h.until)
    into v_held, v_held_by, v_leased_at, v_rest_until, v_until
    from (
        select m.id, l.id as lease, l.leased_at, l.rest_until, l.until from turnabout.lease l
        cross join unnest(l.ids, l.attempts) t (id, attempt)
        join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        where l.id = any (v_leases) for update of m skip locked
    ) h;
    with over as (
        update turnabout.message m
        set attempt = m.attempt + 1, crashes = m.crashes + 1, leased_at = l.leased_at
        from unnest(v_held, v_held_by, v_leased_at, v_rest_until, v_until)
            l (message, id, leased_at, rest_until, until)
        where m.id = l.message and {{ends_at message = l.message; lease = l}} <= now_ms
        returning m.id, m.channel, m.cancel_requested,
            turnabout.exhausted(
                queue, m.failures + m.crashes, m.attempt - coalesce(m.delivered_before, 0)
            ) as limit_
    )
    select array_agg(o.id), array_agg(o.channel),
        array_agg(o.id) filter (where o.limit_ is null and not o.cancel_requested),
        array_agg(o.id) filter (where o.limit_ = 'attempts' and not o.cancel_requested),
        array_agg(o.id) filter (where o.limit_ = 'deliveries' and not o.cancel_requested),
        array_agg(o.id) filter (where o.cancel_requested)
    into v_ids, v_channels, v_back, v_dead, v_worn, v_unwanted
    from over o;

    -- 3. What is left of the leases.
    with rest as (
        select l.id, array_agg(t.id) as ids, array_agg(t.attempt) as attempts,
            min(case when b.at > now_ms then b.at else now_ms + 100 end) as until
        from turnabout.lease l cross join unnest(l.ids, l.attempts) t (id, attempt)
        join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        cross join lateral (select {{ends_at message = t.id; lease = l}} as at) b
        where l.id = any (v_leases) group by l.id
    ),
    kept as (
        update turnabout.lease l set ids = r.ids, attempts = r.attempts, until = r.until
        from rest r where l.id = r.id returning l.id
    ),
    gone as (
        delete from turnabout.lease l
        where l.id = any (v_leases) and not exists (select from rest r where r.id = l.id)
        returning l.id, l.ids
    )
    delete from turnabout.extension e where e.ctid = any (array(
        select x.ctid from gone g
        cross join unnest(g.ids) t (id)
        join turnabout.extension x on x.id = t.id and x.lease = g.id for update of x skip locked
    ));

    -- 4. What becomes of the messages.
    if v_ids is null then return; end if;
    perform turnabout.give_back_slots(queue, v_ids, v_channels);
    perform turnabout.give_places(queue, v_back, now_ms);
    if v_unwanted is not null then
        perform turnabout.end_messages(queue, v_unwanted, 3, now_ms);
    end if;
    if v_dead is not null then
        perform turnabout.dead_letter(queue, v_dead, 'crashes', now_ms);
    end if;
    if v_worn is not null then
        perform turnabout.dead_letter(queue, v_worn, 'deliveries', now_ms);
    end if;
    if queue.events = 'all' then
        perform turnabout.note_events(queue, v_back, 'failed', now_ms);
    end if;
end $$;
