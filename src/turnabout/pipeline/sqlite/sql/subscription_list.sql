-- Subscription list: by name.

-- name: all
-- All, with what they hold.
select subscription.name, owner, generation, subscription.epoch, acked, max_messages, queues,
  opened_at, seen_at,
  count(message.id) as messages, min(message.at) as lease_until
from turnabout_subscription as subscription
left join turnabout_epoch_part as part on part.subscription_id = subscription.id
left join turnabout_epoch_message as receipt
  on receipt.subscription_id = part.subscription_id and receipt.epoch = part.epoch
    and receipt.part = part.part
left join turnabout_message as message not indexed
  on message.id = receipt.message_id and message.attempt = receipt.attempt
    and message.status = 2 and message.queue_id = part.queue_id
group by subscription.name
order by subscription.name;
