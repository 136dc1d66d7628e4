-- After a crash of the server (turnabout.rebuild): leases of recorded epochs run on, under their
-- numbers, so that a batch that is repeated finds its messages; at least as long as a lease of
-- their queue, so that a reader has time to come back. Answers with the numbers.
create or replace function turnabout_pipeline.restore_leases(now_ms bigint) returns bigint[]
language plpgsql as $$
declare
    v_kept bigint[];
begin
    with kept as (
        insert into turnabout.lease as o (id, until, leased_at, queue_id, ids, attempts)
        select p.lease, greatest(e.until, now_ms + q.lease_ms), e.leased_at, q.id, p.ids, p.attempts
        from turnabout.epoch_part p
        join turnabout.epoch e on e.subscription = p.subscription and e.epoch = p.epoch
        join turnabout.queue q on q.id = p.queue_id
        -- A dump may have brought it.
        on conflict (id) do update set until = greatest(o.until, excluded.until) returning o.id
    )
    select array_agg(k.id) into v_kept from kept k;
    insert into turnabout.slot (id, queue_id, attempt, channel)
    select m.id, m.queue_id, t.attempt, m.channel from turnabout.lease l
    cross join unnest(l.ids, l.attempts) t (id, attempt)
    join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
    join turnabout.queue q on q.id = m.queue_id
    left join turnabout.channel c on c.queue_id = m.queue_id and c.name = m.channel
    where l.id = any (v_kept) and (q.limited or q.queue_limited or c.name is not null)
        and not exists (
            select from turnabout.slot s
            where s.queue_id = m.queue_id and s.channel = m.channel and s.id = m.id
        );
    return coalesce(v_kept, '{}');
end $$;
