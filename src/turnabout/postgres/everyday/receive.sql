-- Lease one message, where nothing special is going on; else nothing, and no row is the answer:
-- then sql/receive/receive.sql does it, which knows everything. That one also runs now and then
-- when this one would do, to see what time has brought: what is due, leases that ran out, head
-- marks.
--
-- A policy of a channel is seen by the channel's row, which policy_set makes at once, unless
-- somebody else is just making it.
with {{facts which = q.name = $queue::text; more = }}, {{take_one}},
{{lease
    number = nextval('turnabout.lease_number');
    rows = (select a.*, array[a.id] as ids, array[a.attempt] as attempts from taken a)}}
select * from taken
