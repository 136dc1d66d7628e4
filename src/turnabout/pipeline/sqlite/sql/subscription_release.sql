-- Subscription release: its messages go back, and its reader is fenced.

-- name: fence
-- Nobody has it, and nothing is left to acknowledge.
update turnabout_subscription
set generation = :generation, owner = '', acked = epoch, max_messages = null
where id = :id;

-- name: forget
-- The subscription is gone.
delete from turnabout_subscription where id = :id;
