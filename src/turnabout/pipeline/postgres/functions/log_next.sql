-- The next rows of the log after a position (null: from the start), at most `most`; those that
-- share a position are never parted. Below the oldest running transaction only: what commits later
-- comes behind them.
--
-- What is missing up to the place `known` was known when the reader began, so nothing is lost.
--
-- `state`: range, with the last position, what is known of there to be missing (null: nothing that
-- is behind it), how many rows, and whether there are more; lost, with the floor; ahead, with the
-- end. A null position is the start.
create or replace function turnabout_pipeline.log_next(
    after_xid xid8, after_id bigint, inout known_xid xid8, inout known_id bigint,
    most bigint default null, ignore_loss boolean default false, out state text, out xid xid8,
    out id bigint, out messages bigint, out more boolean
)
language plpgsql stable  -- so that floor and rows are of one snapshot
as $$  -- plans: pinned
declare
    v_before xid8; v_next_xid xid8; v_next_id bigint; v_floor_xid xid8; v_floor_id bigint;
begin
    -- 1. Whether the position is one of this log, and what is after it complete. Rows from the
    --    future came with a dump of a server that was further: they would be passed over for long.
    if after_xid >= pg_snapshot_xmax(pg_current_snapshot())
        or exists (
            select from turnabout.history h where h.xid >= pg_snapshot_xmax(pg_current_snapshot())
        )
    then
        state := 'ahead';
        select e.xid, e.id into log_next.xid, log_next.id from turnabout_pipeline.log_end() e;
        return;
    end if;
    select f.xid, f.id into v_floor_xid, v_floor_id from turnabout_pipeline.log_floor() f;
    if after_xid is null or ignore_loss then
        known_xid := v_floor_xid; known_id := v_floor_id;
    elsif (v_floor_xid, v_floor_id) > (after_xid, after_id)
        and (known_xid is null or (v_floor_xid, v_floor_id) > (known_xid, known_id))
    then
        state := 'lost'; xid := v_floor_xid; id := v_floor_id;
        return;
    end if;

    -- 2. The first row that is too many.
    state := 'range';
    v_before := pg_snapshot_xmin(pg_current_snapshot());
    if most is not null then
        select h.xid, h.id into v_next_xid, v_next_id from turnabout.history h
        where (h.xid, h.id) > (coalesce(after_xid, '0'), coalesce(after_id, 0)) and h.xid < v_before
        order by h.xid, h.id offset most limit 1;
    end if;
    more := v_next_xid is not null;

    -- 3. All before it; of rows that share its position, none or all.
    if more then
        select h.xid, h.id into log_next.xid, log_next.id from turnabout.history h
        where (h.xid, h.id) > (coalesce(after_xid, '0'), coalesce(after_id, 0))
            and (h.xid, h.id) < (v_next_xid, v_next_id)
        order by h.xid desc, h.id desc limit 1;
        if found and not exists (
            select from turnabout.history h where (h.xid, h.id) = (v_next_xid, v_next_id) offset 1
        ) then
            messages := most;  -- what is known need not be counted
        elsif xid is null then
            xid := v_next_xid; id := v_next_id;
            more := exists (
                select from turnabout.history h
                where (h.xid, h.id) > (v_next_xid, v_next_id) and h.xid < v_before);
        end if;
    else
        select h.xid, h.id into log_next.xid, log_next.id from turnabout.history h
        where (h.xid, h.id) > (coalesce(after_xid, '0'), coalesce(after_id, 0)) and h.xid < v_before
        order by h.xid desc, h.id desc limit 1;
        if not found then
            xid := after_xid; id := after_id;
        end if;
    end if;
    messages := coalesce(messages, turnabout_pipeline.log_count(after_xid, after_id, xid, id));
    if (known_xid, known_id) <= (xid, id) then
        known_xid := null; known_id := null;
    end if;
end $$;
