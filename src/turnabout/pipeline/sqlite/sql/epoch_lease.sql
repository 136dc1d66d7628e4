-- Epoch lease: acknowledge, then the next epoch. What happens to messages is in ack and receive.

-- name: acked
-- Up to where epochs are acknowledged; an isolated subscription may grow.
update turnabout_subscription
set acked = max(acked, :after), epoch = max(epoch, :after), max_messages = max_messages << :epochs
where id = :id;

-- name: grown
-- It has grown enough.
update turnabout_subscription set max_messages = null where id = :id;

-- name: add_epoch
-- A new epoch,
insert into turnabout_epoch (subscription_id, epoch, leased_at, lease_until)
values (:id, :epoch, :now, :until);

-- name: leased
-- and where the next one goes on.
update turnabout_subscription set epoch = :epoch, queues = :queues, turns = :turns where id = :id;
