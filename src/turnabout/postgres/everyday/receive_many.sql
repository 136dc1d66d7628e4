-- Lease some messages, as everyday/receive.sql does one: the same conditions. They differ between
-- queues where no channel has a policy, and queues where none that has one may give anything now.
with recursive {{facts which = q.name = $queue::text; more = ,
        coalesce($channel::text, repeat(chr(1114111), 64)) collate "C" as start,
        turnabout.quantum($most::int) as quantum}},
{{take_in_turn open = {{open}}}}, {{lease_many}}
select * from taken
