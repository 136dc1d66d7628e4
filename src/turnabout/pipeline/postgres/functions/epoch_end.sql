-- End the messages of all epochs up to one as done, and forget these; suspects are cleared by it.
-- Answers with how many ended, how many were not the subscription's any more, and the queues to
-- notify; `failed`: some had failed before.
create or replace function turnabout_pipeline.epoch_end(
    subscription text, up_to bigint, now_ms bigint, out acked int, out lost int,
    out failed boolean, out notified text[]
) language plpgsql as $$
declare
    v_part record; v_count int;
begin
    acked := 0; lost := 0; failed := false; notified := '{}';
    for v_part in
        delete from turnabout.epoch_part p
        using turnabout.epoch e
        where p.subscription = epoch_end.subscription and p.epoch <= up_to
            and e.subscription = p.subscription and e.epoch = p.epoch
        returning p.queue_id, p.queue, p.ids, p.attempts, p.lease, e.leased_at, e.plans
    loop
        v_count := turnabout_pipeline.end_leases(
            v_part.queue_id, v_part.ids, v_part.attempts, v_part.lease, v_part.leased_at, now_ms);
        acked := acked + v_count;
        lost := lost + cardinality(v_part.ids) - v_count;
        failed := failed or v_part.plans > 1;
        if v_count > 0 and v_part.queue <> all (notified) then
            notified := notified || v_part.queue;
        end if;
        update turnabout.subscription s set suspects = s.suspects - v_part.ids::text[]
        where v_count > 0 and s.name = epoch_end.subscription and s.suspects <> '{}';
    end loop;
    delete from turnabout.epoch e
    where e.subscription = epoch_end.subscription and e.epoch <= up_to;
end $$;
