-- A bounded share of housekeeping: look after head marks and the timers' bound, end what has
-- expired, take a step of each redrive, fold a queue's tally into one row, sweep what is old, make
-- and drop days of history. Waits for nobody; one caller at a time does it.
create or replace function turnabout.maintain(
    queue text, now_ms turnabout.instant default null
) returns void language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue;
    v_now bigint := coalesce(maintain.now_ms, turnabout.clock_ms());
    v_redrive bigint;
begin
    if not exists (select from turnabout.queue q where q.name = maintain.queue) then return; end if;
    v_queue := turnabout.find_queue(maintain.queue);
    if not pg_try_advisory_xact_lock(hashtextextended('turnabout.maintain', v_queue.id)) then
        return;
    end if;
    perform turnabout.settle_changes(c.queue, v_now, false)
    from (
        select v_queue.name
        union
        (select c.queue from turnabout.recent_change c
        where c.queue <> '' and not exists (select from turnabout.queue q where q.id = c.queue_id)
        limit 10)
    ) c (queue);
    perform turnabout.place_prepared(v_now);
    perform turnabout.maintain_clock(v_queue, v_now);
    perform turnabout.maintain_head_marks(v_queue.id);
    perform turnabout.maintain_timers(v_queue, v_now);
    perform turnabout.expire(v_queue, v_now, 10000);
    perform turnabout.maintain_leases(v_queue, v_now);
    for v_redrive in
        -- Hardly anybody receives from a dead-letter queue: its redrives take their steps from
        -- here, too.
        select r.id from turnabout.redrive r
        where r.state = 'running' and r.queue_id = any (array[
            v_queue.id, (select d.id from turnabout.queue d where d.name = v_queue.dead_letter)])
        order by r.id limit 10
    loop
        perform turnabout.redrive_step(v_redrive, v_now);
    end loop;

    with parts as (
        delete from turnabout.tally t where t.ctid = any (array(
            select p.ctid from turnabout.tally p where p.queue_id = v_queue.id limit 20000
            for update skip locked
        ))
        returning t.*
    )
    insert into turnabout.tally (queue_id, sent, done, dead, cancelled, expired)
    select v_queue.id, sum(p.sent), sum(p.done), sum(p.dead), sum(p.cancelled), sum(p.expired)
    from parts p
    having count(*) > 0;

    perform turnabout.maintain_history(v_queue, v_now);
    perform turnabout.maintain_dedup(v_queue.id, v_now);
    delete from turnabout.event e where e.ctid = any (array(
        select old.ctid from (
            select r.ctid, r.at from turnabout.event r where r.queue_id = v_queue.id
            order by r.xid, r.seq limit 10000 for update skip locked
        ) old
        where old.at < v_now - 86400000
    ));
    perform turnabout.maintain_days(v_now);
end $$;
