-- Days of history: make today's and the next two, unless the default partition has rows of it; drop
-- those that are older than any queue keeps them.
--
-- Both need locks that others would have to stand in line behind. So a try lasts 50 ms at most;
-- what did not come about is tried again later, dropping seldom, as it has to wait until nobody at
-- all writes history. Rows of a day that was not made are in the default partition.
create or replace function turnabout.maintain_days(now_ms bigint, drop_seldom boolean default true)
returns void language plpgsql set lock_timeout = '50ms' as $$
declare
    v_day bigint := 86400000;
    v_today bigint := now_ms / v_day * v_day;
    v_from bigint; v_old text; v_xid xid8; v_id bigint;
begin
    -- 1. Is there anything to do, and may this role do it?
    for i in 0 .. 2 loop
        if to_regclass(turnabout.day_name(v_today + i * v_day)) is null and not exists (
            select from turnabout.history_default h
            where h.finished_at >= v_today + i * v_day and h.finished_at < v_today + (i + 1) * v_day
        ) then
            v_from := v_today + i * v_day;
            exit;
        end if;
    end loop;
    if not drop_seldom or random() < 0.02 then
        select c.relname into v_old from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'turnabout.history'::regclass and c.relname ~ '^history_[0-9]{8}$'
            and extract(epoch from to_date(right(c.relname, 8), 'YYYYMMDD')) * 1000 + v_day
                < now_ms - turnabout.longest_history()
        order by c.relname limit 1;
    end if;
    if v_from is null and v_old is null
        or not pg_has_role(
            (select c.relowner from pg_class c where c.oid = 'turnabout.history'::regclass),
            'usage')
        or not has_schema_privilege('turnabout', 'create')
        or not pg_try_advisory_xact_lock(hashtextextended('turnabout.days', 0))
    then
        return;
    end if;

    -- 2. One day made, one dropped, or neither.
    begin
        if v_from is not null then perform turnabout.make_day(v_from); end if;
        if v_old is not null then
            -- The table above first, as those who write do.
            execute 'lock table only turnabout.history in access exclusive mode';
            execute format('lock table turnabout.%I in access exclusive mode', v_old);
            execute format(
                'select h.xid, h.id from turnabout.%I h order by h.xid desc, h.id desc limit 1',
                v_old)
            into v_xid, v_id;
            execute format('drop table turnabout.%I', v_old);
            perform turnabout.note_floor(v_xid, v_id);
        end if;
    exception
        when lock_not_available or query_canceled or deadlock_detected
            or invalid_object_definition then  -- the first partition may reach beyond its day
        null;
    end;
end $$;
