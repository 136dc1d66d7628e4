-- A range of the log as up to `parts` ranges of about as many rows each, in order: the last
-- position of each, and its rows.
--
-- Counting a range takes longer than reading a few columns of it. So without `exact` the places
-- come from a sample of 200 blocks a part, and the numbers of rows are estimates; unless that
-- finds too few of the range, which is then a small part of the history.
create or replace function turnabout_pipeline.log_cut(
    after_xid xid8, after_id bigint, until_xid xid8, until_id bigint, parts int,
    exact boolean default true
) returns table (xid xid8, id bigint, messages bigint)
language plpgsql stable as $$  -- plans: pinned
declare
    v_left bigint;
    v_xid xid8 := coalesce(after_xid, '0');
    v_id bigint := coalesce(after_id, 0);
    v_blocks bigint; v_share real; v_xids xid8[]; v_ids bigint[];
begin
    if not exact and parts > 1 then
        select sum(pg_relation_size(t.relid)) / current_setting('block_size')::int into v_blocks
        from pg_partition_tree('turnabout.history') t where t.isleaf;
        v_share := least(100, 20000.0 * parts / greatest(v_blocks, 1));
        select array_agg(e.xid order by e.part), array_agg(e.id order by e.part),
            max(e.found) * 100 / v_share / parts
        into v_xids, v_ids, messages
        from (
            select distinct on (s.part) s.* from (
                select h.xid, h.id, ntile(parts) over (order by h.xid, h.id) as part,
                    count(*) over () as found
                from turnabout.history h tablesample system (v_share)
                where (h.xid, h.id) > (v_xid, v_id) and (h.xid, h.id) <= (until_xid, until_id)
            ) s
            where s.found >= 50 * parts order by s.part, s.xid desc, s.id desc
        ) e;
    end if;
    if v_xids is not null then
        v_xids[parts] := until_xid;
        v_ids[parts] := until_id;
        return query select u.xid, u.id, log_cut.messages from unnest(v_xids, v_ids) u (xid, id);
        return;
    end if;

    v_left := turnabout_pipeline.log_count(after_xid, after_id, until_xid, until_id);
    for i in reverse parts .. 1 loop
        exit when v_left = 0;
        xid := until_xid; id := until_id;
        messages := (v_left + i - 1) / i;
        v_left := v_left - messages;
        if v_left > 0 then
            select h.xid, h.id into log_cut.xid, log_cut.id from turnabout.history h
            where (h.xid, h.id) > (v_xid, v_id) and (h.xid, h.id) <= (until_xid, until_id)
            order by h.xid, h.id offset messages - 1 limit 1;
        end if;
        v_xid := xid; v_id := id;
        return next;
    end loop;
end $$;
