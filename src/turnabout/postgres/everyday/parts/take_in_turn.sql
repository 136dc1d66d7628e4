-- The channels in turn, all by one statement. The skip scan finds the next ones, from `start` on;
-- at the end of the names it goes on at their start, and a name beyond `start` ends it (tested
-- outside the probe, where it cannot become a filter that walks every entry). Heads are locked from
-- where the probe landed on, and taken, but what has expired. A landing on a head mark (an id below
-- zero, see sql/place/set_head_marks.sql) goes on at its mark, and counts little: there may be
-- nothing. The scan runs only as far as its channels are asked for. Whether the whole turn is
-- shorter than a batch, so that each channel has to give more than the quantum, is seen from the
-- first ones; where even then not all had their share, the others give once more.
hop (channel, priority, since, lap, is_mark, nr) as (
    select f.start, 0::smallint, 0::bigint, 0, false, 0 from facts f
    union all
    select next.channel, next.priority, next.since, next.lap, next.is_mark,
        hop.nr + case when next.is_mark then 1 else 64 end
    from hop
    cross join lateral (
        ({{entry
            what = r.channel, r.priority, case when r.id < 0 then r.at else r.id end as since,
                hop.lap, r.id < 0 as is_mark;
            queue = (select f.id from facts f);
            after = > hop.channel}})
        union all
        ({{entry
            what = r.channel, r.priority, case when r.id < 0 then r.at else r.id end, 1, r.id < 0;
            queue = (select f.id from facts f);
            after = >= '' and hop.lap = 0}})
        limit 1
    ) next
    where hop.nr < 64 * $most and (next.lap = 0 or next.channel <= (select f.start from facts f))
),
share (given) as materialized (
    select case when s.seen * f.quantum < $most then ($most + s.seen - 1) / s.seen
        else f.quantum end
    from facts f
    cross join lateral (
        select greatest(count(*), 1)::int as seen from (
            select from hop h
            where h.nr > 0 and (not h.is_mark or (
                {{line_from what = 1; queue = f.id; name = h.channel; place = h}} limit 1
            ) is not null)
            limit ($most + f.quantum - 1) / f.quantum
        ) first
    ) s
),
gone as (
    delete from turnabout.ready r where r.ctid = any (array(
        select head.ctid from (
            select h.channel, h.priority, h.since, 0 as again from hop h where h.nr > 0
            union all
            select h.channel, h.priority, h.since, 1 from hop h where h.nr > 0
        ) place
        cross join lateral (
            {{line_from
                what = e.ctid;
                queue = (select f.id from facts f);
                name = place.channel;
                place = place}}
                and (e.expires_at is null or e.expires_at > (select f.now from facts f))
            order by e.priority, e.id offset (select s.given from share s) * place.again
            limit (select s.given from share s) for update skip locked
        ) head
        where {open} limit $most
    ))
    returning r.id
)
