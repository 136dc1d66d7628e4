-- The same of many: messages of one lease, and the next ones.
with recursive {{settled_many}},
{{facts which = q.id = (select min(e.queue_id) from ended e); more = ,
        coalesce($channel::text, repeat(chr(1114111), 64)) collate "C" as start,
        turnabout.quantum($most::int) as quantum}},
{{take open = {{open}}}}, {{lease_many}}
select t.* from held h left join taken t on true
