-- Steps on subscriptions and their epochs that some verbs share.

-- name: find
-- A subscription.
select * from turnabout_subscription where name = :name;

-- name: seen
-- Its reader was here.
update turnabout_subscription set seen_at = :now where id = :id;

-- name: epochs
-- Epochs that are recorded, in order.
select epoch from turnabout_epoch where subscription_id = :id and epoch > :after and epoch <= :upto
order by epoch;

-- name: parts
-- The parts of an epoch.
select part, queue_id, name, messages from turnabout_epoch_part
where subscription_id = :id and epoch = :epoch
order by part;

-- name: receipts
-- The receipts of a part, in order.
select message_id, attempt from turnabout_epoch_message
where subscription_id = :id and epoch = :epoch and part = :part
order by place;

-- name: held
-- Those of them that hold.
select receipt.message_id, receipt.attempt
from turnabout_epoch_message as receipt
cross join turnabout_message as message not indexed on message.id = receipt.message_id
where receipt.subscription_id = :id and receipt.epoch = :epoch and receipt.part = :part
  and message.status = 2 and message.attempt = receipt.attempt and message.queue_id = :queue
order by receipt.place;

-- name: extend
-- Their leases run for longer, never shorter.
update turnabout_message as message set at = max(message.at, :until)
from turnabout_epoch_message as receipt
where receipt.subscription_id = :id and receipt.epoch = :epoch and receipt.part = :part
  and message.id = receipt.message_id and message.status = 2
  and message.attempt = receipt.attempt and message.queue_id = :queue;

-- name: lease_until
-- Up to when they run.
select lease_until from turnabout_epoch where subscription_id = :id and epoch = :epoch;

-- name: extended
-- Up to when the epoch's leases run.
update turnabout_epoch set lease_until = max(lease_until, :until)
where subscription_id = :id and epoch = :epoch;

-- name: drop_messages
-- An epoch's receipts are forgotten,
delete from turnabout_epoch_message where subscription_id = :id and epoch = :epoch;

-- name: drop_parts
-- its parts,
delete from turnabout_epoch_part where subscription_id = :id and epoch = :epoch;

-- name: drop_epoch
-- and the epoch.
delete from turnabout_epoch where subscription_id = :id and epoch = :epoch;

-- name: add_part
-- A part of an epoch.
insert into turnabout_epoch_part (
  subscription_id, epoch, part, queue_id, name, namespace, queue, messages
)
values (
  :id, :epoch, :part, :queue_id, :name, substr(:name, 1, max(instr(:name, '/'), 1) - 1),
  substr(:name, instr(:name, '/') + 1), :messages
);

-- name: add_messages
-- Its receipts: of these messages, which are leased.
insert into turnabout_epoch_message (subscription_id, epoch, part, place, message_id, attempt)
select :id, :epoch, :part, taken.key + 1, message.id, message.attempt
from json_each(:ids) as taken
cross join turnabout_message as message on message.id = taken.value;
