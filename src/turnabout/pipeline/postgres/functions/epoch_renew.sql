-- Let the leases of recorded epochs run until an instant; never shorter than they run already.
-- Answers with how many run, and how many are lost.
create or replace function turnabout_pipeline.epoch_renew(
    subscription text, first_epoch bigint, last_epoch bigint, until_ms bigint, out messages int,
    out lost int
)
language plpgsql as $$
declare
    v_part record;
    v_leases bigint[];
    v_held bigint[];
begin
    messages := 0;
    lost := 0;
    for v_part in
        select p.queue_id, p.ids, p.attempts, p.leases from turnabout.epoch_part p
        where p.subscription = epoch_renew.subscription
            and p.epoch between first_epoch and last_epoch
    loop
        v_leases := turnabout.leases_of(
            v_part.queue_id, v_part.ids, v_part.attempts, v_part.leases);
        v_held := turnabout.lock_leases(v_part.queue_id, v_part.ids, v_part.attempts, v_leases);
        perform turnabout.extend_leases(
            v_part.ids, turnabout.only(v_leases, v_part.ids, v_held), until_ms);
        messages := messages + cardinality(v_held);
        lost := lost + cardinality(v_part.ids) - cardinality(v_held);
    end loop;
    update turnabout.epoch e
    set until = until_ms
    where e.subscription = epoch_renew.subscription and e.epoch between first_epoch and last_epoch
        and e.until < until_ms;
end
$$;
