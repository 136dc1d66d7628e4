-- After a crash of the server (turnabout.rebuild): leases of recorded epochs run on, under their
-- numbers, so that a batch that is repeated finds its messages.
create or replace function turnabout_pipeline.restore_leases(now_ms bigint) returns void
language sql as $$
    insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
    select t.lease, max(greatest(e.until, now_ms)), min(e.leased_at), p.queue_id,
        array_agg(t.id), array_agg(t.attempt)
    from turnabout.epoch_part p
    join turnabout.epoch e on e.subscription = p.subscription and e.epoch = p.epoch
    cross join unnest(p.ids, p.attempts, p.leases) t (id, attempt, lease)
    join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
        and m.queue_id = p.queue_id
    group by t.lease, p.queue_id
$$;
