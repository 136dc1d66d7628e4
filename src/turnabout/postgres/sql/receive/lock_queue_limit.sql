-- Lock the row of a queue with limits of its own, and count its slots; null: another transaction
-- holds it. Leases that ran out give theirs back first. The caller writes the row
-- (pay_queue_limit).
--
-- A transaction that has written nothing yet holds no row that others wait for, so it may wait
-- briefly.
create or replace function turnabout.lock_queue_limit(
    queue turnabout.queue, now_ms bigint, most int
) returns turnabout.queue_limit language plpgsql set lock_timeout = '50ms' as $$
declare
    v_limit turnabout.queue_limit; v_changes record;
begin
    -- 1. The lock. The first to come makes the row.
    begin
        for i in 1 .. 2 loop
            if pg_current_xact_id_if_assigned() is null then
                select l.* into v_limit from turnabout.queue_limit l where l.queue_id = queue.id
                for update;
            else
                select l.* into v_limit from turnabout.queue_limit l where l.queue_id = queue.id
                for update skip locked;
            end if;
            exit when i = 2 or v_limit.queue_id is not null;
            with made as (
                insert into turnabout.queue_limit (queue_id) values (queue.id)
                on conflict do nothing returning queue_id
            )
            insert into turnabout.slot_change (queue_id) select m.queue_id from made m;
        end loop;
    exception when lock_not_available then
        return null;
    end;
    if v_limit.queue_id is null then return null; end if;

    -- 2. What was given back since, and now. Notes of transactions before `folded_to` are all gone,
    --    and none can come: their dead entries, which an old snapshot keeps, are not read again.
    perform turnabout.run_timers(queue, now_ms, most);
    with gone as (
        delete from turnabout.slot_change c
        where c.queue_id = queue.id and c.xid >= v_limit.folded_to returning c.freed
    )
    select sum(g.freed)::int as freed,
        case when bool_or(g.freed is null) or exists (
            select from turnabout.recent_change c where c.queue = lock_queue_limit.queue.name
        ) then (
            select count(*)::int from turnabout.slot s where s.queue_id = queue.id
        ) end as slots,
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xmin
    into v_changes
    from gone g;
    v_limit.leased := coalesce(v_changes.slots, v_limit.leased - coalesce(v_changes.freed, 0));
    v_limit.folded_to := v_changes.xmin;
    return v_limit;
end $$;
