-- Steps that the verbs with a receipt share.

-- name: held
-- The messages of these receipts as they are now, as far as they are in this queue. `not indexed`:
-- by their ids, without a detour through what is limited.
select id, attempt, delivered_before, status, at, channel, limited, failures, crashes, errors,
  last_error, origin, cancel_requested, leased_at
from turnabout_message not indexed
where id in (select value from json_each(:ids)) and queue_id = :queue;
