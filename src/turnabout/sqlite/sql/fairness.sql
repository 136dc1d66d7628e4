-- Who is served, and who waits. What the figures mean: postgres/sql/look/fairness.sql.

-- name: from
-- When the 10,000th newest message of the history ended.
select finished_at from turnabout_history where queue_id = :queue order by seq desc
limit 1 offset 10000;

-- name: shares
-- The first row, without a channel, has the sums.
with done as materialized (
  select channel, min(29, (:now - finished_at) / :slice) as slice, sum(attempt) as served,
    coalesce(sum(finished_at - leased_at), 0) as busy_ms
  from turnabout_history
  where queue_id = :queue and finished_at > :from and finished_at <= :now
    and seq > (select max(seq) from turnabout_history where queue_id = :queue) - 10000
  group by 1, 2
),
counted (channel, ready, leased, oldest, served, busy_ms) as (
  select channel, count(*), 0, min(id), 0, 0 from turnabout_message
  where queue_id = :queue and status = 0 and limited = 0 group by channel
  union all
  select channel, sum(at <= :now), 0, min(iif(at <= :now, id, null)), 0, 0 from turnabout_message
  where queue_id = :queue and limited = 1 and status = 0 group by channel
  union all
  select channel, status = 1, status = 2, iif(status = 1, id, null), 0, 0 from turnabout_message
  where queue_id = :queue and (status = 1 and at > 0 and at <= :now or status = 2 and at > 0)
  union all
  select channel, 0, 0, null, served, busy_ms from done
),
known as (
  select channel, sum(ready) as ready, sum(leased) as leased, min(oldest) as oldest,
    sum(served) + sum(leased) as served, sum(busy_ms) as busy_ms
  from counted group by channel
),
-- Through how many slices, from now back, a channel has waited that no limit of its own holds.
looked as (
  select k.*, :now - w.since as waits_ms, coalesce(c.weight, q.weight, 1) as weight,
    iif(c.rate_count is null, q.rate_interval_us, c.rate_interval_us) as interval_us,
    k.ready > 0 and (q.paused or coalesce(
      c.paused or c.paused_until > :now
      or k.leased >= iif(q.fifo, 1, coalesce(c.max_concurrency, q.max_concurrency))
      or iif(c.rate_count is null, q.rate_interval_us * (1 - q.rate_burst),
        c.rate_interval_us * (1 - c.rate_burst)) + c.tat_us > :now * 1000
      or q.fifo and :now < (
        select m.at from turnabout_message m
        where m.queue_id = :queue and m.limited = 1 and m.channel = k.channel and m.status = 0
        order by m.priority, m.id limit 1
      ), 0)) as is_held
  from known k join turnabout_queue q on q.id = :queue
  left join turnabout_channel c on c.queue_id = :queue and c.name = k.channel
  left join (
    select id, max(sent_at, iif(status = 1, at, 0)) as since from turnabout_message
  ) w on w.id = k.oldest
),
judged as materialized (
  select *, iif(is_held or waits_ms is null, 0, min(30, waits_ms / :slice)) as slices from looked
),
widths as materialized (
  select slices, sum(weight) as width from judged where slices > 0 group by slices
),
asked as materialized (
  select s.slice, s.channel, j.weight, j.slices > s.slice as waits, sum(s.served) as served from (
    select slice, channel, served from done
    union all
    select 0, channel, leased from judged where leased > 0
  ) s
  join judged j on j.channel = s.channel group by 1, 2, 3, 4
),
-- Water is poured into the slice: who asked for little has that, the others share what is left.
slices as (
  select a.slice, sum(a.served) as water, sum(a.served * a.waits) as left_over,
    (select sum(w.width) from widths w where w.slices > a.slice) as width
  from asked a group by a.slice
),
poured as (
  select t.slice, 1.0 * a.served / a.weight as depth,
    1.0 * (t.water - sum(a.served) over above + a.served)
      / (coalesce(t.width, 0) + sum(a.weight) over here) as level
  from slices t join asked a on a.slice = t.slice and not a.waits
  window above as (partition by t.slice order by 1.0 * a.served / a.weight, a.channel),
    here as (partition by t.slice order by 1.0 * a.served / a.weight desc, a.channel desc)
),
levels as materialized (
  select t.slice, coalesce(
    (select max(p.level) from poured p where p.slice = t.slice and p.depth > p.level),
    1.0 * t.left_over / t.width) as level
  from slices t
),
shares as materialized (
  select j.*, coalesce(g.got, 0) as got, min(
    j.weight * f.level,
    coalesce(1 + 1000.0 * j.slices * :slice / j.interval_us, j.weight * f.level)  -- its rate
  ) as fair
  from judged j
  left join (
    select channel, sum(served) as got from asked where waits group by channel
  ) g on g.channel = j.channel
  left join (
    select n.slices, sum(l.level) as level from widths n
    join levels l on l.slice < n.slices group by n.slices
  ) f on f.slices = j.slices and 1 < (select count(*) from judged where slices > 0)
),
told as (
  select *, :keeps and (
      got < .7 * fair and fair - got >= 5 or got = 0 and fair >= 2) as starved,
    :find is null or instr(lower(channel), lower(:find)) > 0 as found
  from shares
)
select null as channel, sum(ready) as ready, sum(leased) as leased, max(waits_ms) as waits_ms,
  0 as weight, sum(served) as served, sum(busy_ms) as busy_ms, 0 as got, 0 as fair,
  sum(starved) as starved, sum(ready > 0) as waiting, sum(is_held) as held, sum(found) as channels
from told
union all
select * from (
  select channel, ready, leased, waits_ms, weight, served, busy_ms, got, fair, starved, 0, 0, 0
  from told where found order by case :sort when 'ready' then -ready when 'oldest' then -waits_ms
      when 'served' then -served when 'fairness' then got / nullif(fair, 0) end nulls last,
    case :sort when 'channel' then channel end, starved desc nulls last, ready desc, channel
  limit :limit offset :offset
);
