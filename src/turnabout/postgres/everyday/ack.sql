-- End one message as done, where nothing is kept of it but the count, and its receipt is the one of
-- its lease, which says so; else nothing, and no row answers: then sql/settle/ack.sql does it.
--
-- The row of the message is not locked first, which would be written to the log. So it may wait for
-- a transaction that has its hands on the same message, a moment; then it fails, and changes
-- nothing. It holds nothing that another one waits for without such a bound.
with held as materialized (
    delete from turnabout.lease l
    where l.id = $lease::bigint and l.plain_queue = $queue::text and turnabout.clock_ms() > 0
        and (
            select 1 from turnabout.recent_change c where c.queue = $queue::text limit 1
        ) is null
        and l.ids = array[$id::bigint] and l.attempts = array[$attempt::int]
        and set_config('lock_timeout', '50ms', true) is not null
    returning l.queue_id
),
gone as (
    delete from turnabout.message m
    where m.id = $id::bigint and m.attempt = $attempt::int - 1
        and m.queue_id + 0 = (select h.queue_id from held h)
    returning m.queue_id
)
insert into turnabout.tally (queue_id, done)
select g.queue_id, 1 from gone g
returning null::text[]
