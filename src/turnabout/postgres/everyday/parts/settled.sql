-- End messages of one lease as done, where nothing special is kept of them, which the lease says.
-- Their rows are not locked first, which would be written to the log. So this may wait for a
-- transaction that has its hands on the same message, a moment; then it fails, and changes nothing.
-- It holds nothing that another one waits for without such a bound.
held as materialized (
    {found}
    where l.id = $lease::bigint and l.plain_queue = $queue::text and l.keeps = {keeps}
        and (select 1 from turnabout.recent_change c where c.queue = $queue::text limit 1) is null
        and {matching} and set_config('lock_timeout', '50ms', true) is not null
    {returning}
),
{emptied}ended as materialized (
    delete from turnabout.message m where {which} and m.attempt = $attempt::int - 1
        and m.queue_id + 0 = (select h.queue_id from held h)
    returning m.queue_id{{fields}}
)
