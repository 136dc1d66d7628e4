-- Take up to `most` heads from the line without limits, the channels in turn.
--
-- One statement does it all. The skip scan finds the next channels: each step is one index probe
-- for the first entry after a channel; at the end of the names it goes on at their start, and a
-- name beyond `start` ends it (tested outside the probe, where it cannot become a filter that walks
-- every entry). Heads are locked from where the probe landed on, and taken. A landing on a mark (an
-- id below zero, see set_head_marks) goes on at its mark, and counts little: there may be nothing.
-- The scan runs only as far as its channels are asked for; whether the whole turn is shorter than a
-- batch, so that each channel has to give more than the quantum, is seen from its first `v_visits`.
--
-- `is_dry`: there is nothing to find. Else, where fewer came than were asked for, others hold what
-- there is.
create or replace function turnabout.take_unlimited(
    queue_id int, most int, quantum int, start text, rows boolean, now_ms bigint,
    out ids bigint[], out is_dry boolean
)
language plpgsql as $$
declare
    v_left int := most;
    v_start text collate "C" := start;
    v_visits int := (most + quantum - 1) / quantum;
    v_some bigint[];
    v_met boolean := false;  -- the last look found nothing, or only what others hold
    v_walked bigint := turnabout.line_walked();
begin
    ids := '{}';
    is_dry := false;
    loop
        with recursive hop (channel, priority, since, lap, nr) as (
            select v_start, 0::smallint, 0::bigint, 0, 0
            union all
            select next.channel, next.priority, next.since, next.lap, hop.nr + next.step
            from hop
            cross join lateral (
                (select r.channel, r.priority, case when r.id < 0 then r.at else r.id end as since,
                    hop.lap, case when r.id < 0 then 1 else 64 end as step
                from turnabout.ready r
                where r.queue_id = take_unlimited.queue_id and not r.limited
                    and r.channel > hop.channel
                order by r.channel, r.priority, r.id limit 1)
                union all
                (select r.channel, r.priority, case when r.id < 0 then r.at else r.id end, 1,
                    case when r.id < 0 then 1 else 64 end
                from turnabout.ready r
                where hop.lap = 0 and r.queue_id = take_unlimited.queue_id and not r.limited
                order by r.channel, r.priority, r.id limit 1)
                limit 1
            ) next
            where hop.nr < 64 * v_left and (next.lap = 0 or next.channel <= v_start)
        ),
        gone as (
            delete from turnabout.ready r
            where r.ctid = any (array(
                select head.ctid
                from hop
                cross join lateral (
                    select e.ctid from turnabout.ready e
                    where e.queue_id = take_unlimited.queue_id and not e.limited
                        and e.channel = hop.channel
                        and (e.priority, e.id) >= (hop.priority, hop.since) and e.id + 0 > 0
                        and (e.expires_at is null or e.expires_at > now_ms)
                    order by e.priority, e.id
                    limit (
                        select case when s.seen < v_visits then (v_left + s.seen - 1) / s.seen
                            else quantum end
                        from (
                            select greatest(count(*), 1) as seen
                            from (select from hop h where h.nr > 0 limit v_visits) h
                        ) s
                    )
                    for update skip locked
                ) head
                where hop.nr > 0
                    -- Not what was sent before its channel became limited. A scalar subquery: it is
                    -- never turned into a hash of all rows.
                    and (not take_unlimited.rows or (
                        select 1 from turnabout.channel c
                        where c.queue_id = take_unlimited.queue_id and c.name = hop.channel
                    ) is null)
                limit v_left
            ))
            returning r.id
        )
        select array_agg(g.id) into v_some from gone g;
        ids := ids || v_some;
        v_left := most - cardinality(ids);
        if v_some is not null and turnabout.line_walked() > v_walked + 64 + 32 * v_visits then
            perform turnabout.set_head_marks(take_unlimited.queue_id, v_some);
            v_walked := turnabout.line_walked();
        end if;
        -- Less than asked for: the queue is dry, few channels are left, or others work here. Go on
        -- elsewhere, so that receivers that have met part again.
        exit when v_left = 0 or v_met and v_some is null;
        v_met := v_some is null;
        is_dry := v_met and turnabout.line_is_empty(take_unlimited.queue_id) is not false;
        exit when is_dry;
        v_start := coalesce(turnabout.random_channel(take_unlimited.queue_id), v_start);
        v_visits := (v_left + quantum - 1) / quantum;
    end loop;
end
$$;
