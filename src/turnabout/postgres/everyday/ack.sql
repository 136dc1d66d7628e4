-- End one message as done, where nothing is kept of it but the count, and its receipt is the one of
-- its lease; else nothing, and no row is the answer: then functions/ack.sql does it. Waits for
-- nobody.
with held as materialized (
    select m.ctid as message, l.ctid as lease, q.id as queue_id
    from turnabout.queue q
    join turnabout.message m on m.id = $id::bigint and m.attempt = $attempt::int - 1
        and m.queue_id + 0 = q.id
    join turnabout.lease l on l.id = $lease::bigint and l.queue_id + 0 = q.id
    where q.name = $queue::text and q.history_ms = 0 and not q.limited and q.events <> 'all'
        and (select 1 from turnabout.channel c where c.queue_id = q.id limit 1) is null
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
