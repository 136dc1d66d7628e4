-- Run all timers, from the first on; and if an old snapshot has left many dead entries before them,
-- let receive start its look behind those. A timer due before that bound, after a late commit, is
-- found here, a second later.
create or replace function turnabout.maintain_timers(queue turnabout.queue, now_ms bigint)
returns void language plpgsql as $$
declare
    v_before bigint := turnabout.dead_timers_read();
    v_first bigint;
    v_bound bigint := 0;
begin
    queue.timers_since := 0;
    perform turnabout.run_timers(queue, now_ms, 10000);
    v_first := least(
        (select s.at from turnabout.scheduled s where s.queue_id = queue.id order by s.at limit 1),
        (select l.until from turnabout.lease l where l.queue_id = queue.id order by l.until limit 1)
    );
    if turnabout.dead_timers_read() > v_before + 500 then
        v_bound := least(v_first, now_ms) - 1;
    end if;
    update turnabout.queue q set timers_since = v_bound where q.id = (
        select s.id from turnabout.queue s
        where s.id = queue.id and s.timers_since <> v_bound
            and (v_bound = 0 or s.timers_since < v_bound - 1000 or s.timers_since > v_bound)
        for update skip locked
    );
end $$;
