-- Epoch plan: its parts, and how often they were asked for.

-- name: planned
-- Once more.
update turnabout_epoch set plans = plans + 1
where subscription_id = :id and epoch = :epoch returning plans;

-- name: isolate
-- What fails often is tried in small epochs.
update turnabout_subscription set max_messages = :messages where id = :id;
