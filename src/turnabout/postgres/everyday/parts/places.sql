-- Where each unfinished message of a queue stands.
select r.channel::text, r.id, case when r.at > {now} then 'scheduled' else 'ready' end, null::bigint
from turnabout.ready r where r.queue_id = {queue} and r.id > 0
union all
select s.channel::text, s.id, case when s.at > {now} then 'scheduled' else 'ready' end, null
from turnabout.scheduled s where s.queue_id = {queue}
union all
select l.channel, l.id, 'leased', l.until from turnabout.leased_messages(array[{queue}]) l
