-- End one message as done, where nothing is kept of it but the count, and its receipt is the one of
-- its lease, which says so; else nothing, and no row is the answer: then functions/ack.sql does it.
-- Waits for nobody.
with held as materialized (
    select m.ctid as message, l.ctid as lease, l.queue_id
    from turnabout.lease l
    join turnabout.message m on m.id = $id::bigint and m.attempt = $attempt::int - 1
        and m.queue_id + 0 = l.queue_id
    where l.id = $lease::bigint and l.plain_queue = $queue::text and turnabout.clock_ms() > 0
        and l.ids = array[m.id] and l.attempts = array[m.attempt + 1]
    for update of m, l skip locked
),
gone as (
    delete from turnabout.message m where m.ctid = (select h.message from held h)
),
ended as (
    delete from turnabout.lease l where l.ctid = (select h.lease from held h)
)
insert into turnabout.tally (queue_id, done)
select h.queue_id, 1 from held h
returning null::text[]
