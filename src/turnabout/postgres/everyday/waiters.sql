-- Whether anybody waits in one of these queues; else no row: then nobody has to be notified, and
-- sql/look/notify_waiters.sql is not called.
select null from turnabout.waiter w
where w.queue = any ($1::text[] collate "C") and w.until > turnabout.clock_ms() limit 1
