-- Remove up to `most` of the oldest rows of the log up to a position, of those that finished before
-- an instant; or count all of them. What others hold is skipped. Answers with how many.
create or replace function turnabout_pipeline.log_purge(
    until_xid xid8, until_id bigint, finished_before bigint, most bigint, dry_run boolean
) returns bigint language plpgsql as $$  -- plans: pinned
declare
    v_before xid8 := pg_snapshot_xmin(pg_current_snapshot());
    v_count bigint; v_xid xid8; v_id bigint;
begin
    if dry_run then
        select count(*) into v_count from turnabout.history h
        where (h.xid, h.id) <= (until_xid, until_id) and h.xid < v_before
            and h.finished_at < finished_before;
        return v_count;
    end if;
    with gone as (
        delete from turnabout.history h
        using (
            select r.xid, r.id, r.queue_id, r.finished_at from turnabout.history r
            where (r.xid, r.id) <= (until_xid, until_id) and r.xid < v_before
                and r.finished_at < log_purge.finished_before
            order by r.xid, r.id limit most for update skip locked
        ) old
        where h.xid = old.xid and h.id = old.id and h.queue_id + 0 = old.queue_id
            and h.finished_at = old.finished_at
        returning h.xid, h.id
    )
    select count(*), (array_agg(g.xid order by g.xid desc, g.id desc))[1],
        (array_agg(g.id order by g.xid desc, g.id desc))[1]
    into v_count, v_xid, v_id
    from gone g;
    perform turnabout.note_floor(v_xid, v_id);
    return v_count;
end $$;
