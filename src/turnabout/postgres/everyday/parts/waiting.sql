-- Where a message waits: in the line, or for its time.
(select 'ready' as place, r.at from turnabout.ready r
where r.queue_id = {m}.queue_id and r.limited = any ('{false,true}')
    and r.channel = {m}.channel and r.priority = {m}.priority and r.id = {m}.id
limit 1)
union all
(select 'scheduled', s.at from turnabout.scheduled s
where s.queue_id = {m}.queue_id and s.at = {m}.at and s.id = {m}.id)
