-- A range of the log as up to `parts` ranges of about as many rows each, in order: the last
-- position of each, and its rows.
-- plans: pinned
create or replace function turnabout_pipeline.log_cut(
    after_xid xid8, after_id bigint, until_xid xid8, until_id bigint, parts int
) returns table (xid xid8, id bigint, messages bigint)
language plpgsql stable as $$
declare
    v_left bigint := turnabout_pipeline.log_count(after_xid, after_id, until_xid, until_id);
    v_xid xid8 := coalesce(after_xid, '0');
    v_id bigint := coalesce(after_id, 0);
begin
    for i in reverse parts .. 1 loop
        exit when v_left = 0;
        xid := until_xid;
        id := until_id;
        if i > 1 then
            select h.xid, h.id into log_cut.xid, log_cut.id from turnabout.history h
            where (h.xid, h.id) > (v_xid, v_id) and (h.xid, h.id) <= (until_xid, until_id)
            order by h.xid, h.id
            offset (v_left + i - 1) / i - 1
            limit 1;
        end if;
        messages := turnabout_pipeline.log_count(v_xid, v_id, xid, id);
        v_left := v_left - messages;
        if v_left <= 0 then
            v_left := 0;
            xid := until_xid;
            id := until_id;
        end if;
        v_xid := xid;
        v_id := id;
        return next;
    end loop;
end
$$;
