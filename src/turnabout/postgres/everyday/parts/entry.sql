-- The skip scan's step: one index probe for the first entry of the line without limits after a
-- channel, however many channels and messages there are.
select {what}
    from turnabout.ready r where r.queue_id = {queue} and not r.limited and r.channel {after}
    order by r.channel, r.priority, r.id limit 1
