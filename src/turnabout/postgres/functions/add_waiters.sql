-- A process says that it waits in these queues, for `valid_ms` unless it says so again. Afterwards
-- it looks once more: what was sent before others could see its rows is there by then.
-- `sweep`: remove what killed processes left behind there, a minute after it was valid.
-- plans: pinned
create or replace function turnabout.add_waiters(
    process text, queues text[], changes smallint[], valid_ms int, sweep boolean default false
) returns void
language plpgsql as $$
declare
    v_now bigint := turnabout.clock_ms();
    v_left text[];
begin
    insert into turnabout.waiter (process, queue, changes, until)
    select add_waiters.process, w.queue, w.change, v_now + add_waiters.valid_ms
    from unnest(add_waiters.queues, add_waiters.changes) w (queue, change)
    order by w.queue collate "C", w.change
    on conflict (process, queue, changes) do update set until = excluded.until;
    if add_waiters.sweep then
        v_left := array(
            select w.process from turnabout.waiter w
            where w.queue = any (add_waiters.queues collate "C") and w.until < v_now - 60000
            for update skip locked
        );
        delete from turnabout.waiter w
        where w.process = any (v_left) and w.queue = any (add_waiters.queues collate "C")
            and w.until < v_now - 60000;
    end if;
end
$$;
