-- End messages of one lease as done, all or none, as everyday/ack.sql does one. If not each of them
-- is held, it divides by zero: then nothing has happened, and sql/settle/ack.sql tells.
with held as materialized (
    select l.ctid, l.queue_id, cardinality(l.ids) = cardinality($ids::bigint[]) as whole
    from turnabout.lease l
    where l.id = $lease::bigint and l.plain_queue = $queue::text and turnabout.clock_ms() > 0
        and (
            select 1 from turnabout.recent_change c where c.queue = $queue::text limit 1
        ) is null
        and l.ids @> $ids::bigint[] and $attempt::int = all (l.attempts)
        and set_config('lock_timeout', '50ms', true) is not null
),
ended as (
    delete from turnabout.lease l where l.ctid = (select h.ctid from held h where h.whole)
),
gone as (
    delete from turnabout.message m
    where m.id = any ($ids::bigint[]) and m.attempt = $attempt::int - 1
        and m.queue_id + 0 = (select h.queue_id from held h)
    returning 1
)
insert into turnabout.tally (queue_id, done)
select h.queue_id, g.count / (g.count = cardinality($ids::bigint[]))::int
from held h
cross join (select count(*) as count from gone) g
returning null::text[]
