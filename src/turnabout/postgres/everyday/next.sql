-- Ack one message as everyday/ack.sql does, and lease the next as everyday/receive.sql does. No
-- row: nothing happened. A row of nulls: it is acked, and there is nothing to lease, or something
-- special is going on.
with {{settled_one}}, {{facts which = q.id = (select e.queue_id from ended e); more = }},
{{take_one}},
{{lease
    number = nextval('turnabout.lease_number');
    rows = (select a.*, array[a.id] as ids, array[a.attempt] as attempts from taken a)}}
select t.* from ended e left join taken t on true
