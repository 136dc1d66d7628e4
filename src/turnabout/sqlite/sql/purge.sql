-- Purge: unfinished messages are cancelled; leased ones only if their state is named.

-- name: choose
-- The messages to cancel.
select id, channel, status = 2 as leased from turnabout_message
where id in (select id from turnabout_place where queue_id = :queue)
  and (:channel is null or channel = :channel)
  and case when status = 2 then 'leased' when at > :now then 'scheduled' else 'ready' end
      in (select value from json_each(:states));
