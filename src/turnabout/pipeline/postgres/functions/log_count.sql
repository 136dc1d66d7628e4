-- How many rows of the log there are after one position, up to and with another.
create or replace function turnabout_pipeline.log_count(
    after_xid xid8, after_id bigint, until_xid xid8, until_id bigint, most bigint default null
) returns bigint language plpgsql stable as $$
declare
    v_count bigint;
begin
    select count(*) into v_count from (
        select from turnabout.history h
        where (h.xid, h.id) > (coalesce(after_xid, '0'), coalesce(after_id, 0))
            and (h.xid, h.id) <= (until_xid, until_id)
        limit most
    ) h;
    return v_count;
end $$;
