-- Subscription open: the newest reader has it.

-- name: generation
-- A number that no reader had before.
update turnabout_generation set last = last + 1 returning last;

-- name: open
-- The subscription, made or taken over.
insert into turnabout_subscription (name, owner, generation, opened_at, seen_at)
values (:name, :owner, :generation, :now, :now)
on conflict (name) do update
set owner = excluded.owner, generation = excluded.generation, opened_at = excluded.opened_at,
  seen_at = excluded.seen_at
returning acked;
