-- A channel's messages in the line, from a place on.
select {what} from turnabout.ready e
where e.queue_id = {queue} and not e.limited and e.channel = {name}
    and (e.priority, e.id) >= ({place}.priority, {place}.since) and e.id + 0 > 0
