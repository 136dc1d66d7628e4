-- After a crash of the server (turnabout.rebuild): leases of recorded epochs run on, under their
-- numbers, so that a batch that is repeated finds its messages.
create or replace function turnabout_pipeline.restore_leases(now_ms bigint) returns void
language sql as $$
    insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
    select p.lease, greatest(e.until, now_ms + q.lease_ms), e.leased_at, q.id, p.ids, p.attempts
    from turnabout.epoch_part p
    join turnabout.epoch e on e.subscription = p.subscription and e.epoch = p.epoch
    join turnabout.queue q on q.id = p.queue_id
$$;
