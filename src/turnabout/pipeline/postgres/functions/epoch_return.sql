-- Give an epoch's messages back to their queues, uncharged and after a delay, all but `keep`: those
-- that were leased most often, as what makes batches fail has been in many, and of these the first
-- ones; of a FIFO queue always the first ones. Answers with how many went back, and the queues to
-- notify.
create or replace function turnabout_pipeline.epoch_return(
    subscription text, epoch bigint, keep bigint, delay_ms bigint, now_ms bigint,
    out returned int, out notified text[]
) language plpgsql as $$
declare
    v_part record; v_queue turnabout.queue; v_count int;
begin
    returned := 0; notified := '{}';
    for v_part in
        with whole as (
            delete from turnabout.epoch_part p
            where p.subscription = epoch_return.subscription and p.epoch = epoch_return.epoch
            returning p.part, p.queue_id, p.queue, p.lease, p.ids, p.attempts
        ),
        ranked as (
            select w.part, w.queue_id, w.queue, w.lease, t.id, t.attempt, t.place,
                row_number() over (
                    order by case when q.fifo then null else t.attempt end desc nulls first,
                        w.part, t.place
                ) <= keep as is_kept
            from whole w left join turnabout.queue q on q.id = w.queue_id
            cross join lateral unnest(w.ids, w.attempts) with ordinality t (id, attempt, place)
        )
        select r.part, r.queue_id, r.queue, r.lease,
            array_agg(r.id order by r.place) filter (where r.is_kept) as ids,
            array_agg(r.attempt order by r.place) filter (where r.is_kept) as attempts,
            array_agg(r.id order by r.place) filter (where not r.is_kept) as other_ids,
            array_agg(r.attempt order by r.place) filter (where not r.is_kept) as other_attempts
        from ranked r group by r.part, r.queue_id, r.queue, r.lease order by r.part
    loop
        if v_part.ids is not null then
            insert into turnabout.epoch_part (
                subscription, epoch, part, queue_id, queue, lease, ids, attempts
            ) values (
                epoch_return.subscription, epoch_return.epoch, v_part.part, v_part.queue_id,
                v_part.queue, v_part.lease, v_part.ids, v_part.attempts
            );
        end if;
        select q.* into v_queue from turnabout.queue q where q.id = v_part.queue_id;
        continue when v_queue.id is null or v_part.other_ids is null;
        v_count := cardinality(v_part.other_ids);
        select v_count - count(d.now) into v_count from turnabout.defer(
            v_queue.name, v_part.other_ids, v_part.other_attempts,
            array_fill(delay_ms, array[v_count]),
            array_fill(null::turnabout.kept, array[v_count]), now_ms, array[v_part.lease]) d;
        -- From now on the lease is one of what stays, and goes with it.
        update turnabout.lease l set ids = v_part.ids, attempts = v_part.attempts
        where v_part.ids is not null and l.id = (
            select e.id from turnabout.lease e where e.id = v_part.lease for update skip locked
        );
        continue when v_count = 0;
        returned := returned + v_count;
        notified := notified || v_queue.name::text;
    end loop;
    notified := array(select distinct r.name from unnest(notified) r (name));
end $$;
