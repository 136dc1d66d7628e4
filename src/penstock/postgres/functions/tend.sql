-- A bounded share of housekeeping: fold a queue's tally into one row, sweep history that is older
-- than its setting, look after buoys and the timers' bound. Waits for nobody; one caller at a time
-- does it.
create or replace function penstock.tend(queue text, now_ms bigint default null) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_queue penstock.queue;
    v_now bigint := coalesce(tend.now_ms, penstock.clock_ms());
begin
    select * into v_queue from penstock.queue q where q.name = tend.queue;
    if not found then
        return;
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended('penstock.tend', v_queue.id)) then
        return;
    end if;
    perform penstock.tend_buoys(v_queue.id, penstock.clock_ms());
    perform penstock.tend_timers(v_queue, v_now);

    with parts as (
        delete from penstock.tally t
        where t.ctid = any (array(
            select p.ctid from penstock.tally p
            where p.queue_id = v_queue.id
            limit 20000
            for update skip locked
        ))
        returning t.*
    )
    insert into penstock.tally (queue_id, sent, done, dead, cancelled)
    select v_queue.id, sum(p.sent), sum(p.done), sum(p.dead), sum(p.cancelled)
    from parts p
    having count(*) > 0;

    delete from penstock.history h
    where h.ctid = any (array(
        select r.ctid from penstock.history r
        where r.queue_id = v_queue.id and r.finished_at < v_now - v_queue.history_ms
        limit 2000
        for update skip locked
    ));
end
$$;
