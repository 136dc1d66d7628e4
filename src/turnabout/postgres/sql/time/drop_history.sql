-- Remove up to `most` of the oldest rows of a queue's history: done ones from before one instant,
-- all others from before another. Answers with how many. What others hold is skipped. The floor of
-- the log rises to what is gone.
create or replace function turnabout.drop_history(
    queue_id int, done_before bigint, failed_before bigint, most int
) returns int language plpgsql as $$
declare
    v_count int; v_xid xid8; v_id bigint;
begin
    with gone as (
        delete from turnabout.history h
        using (
            select o.* from (
                select done.* from (
                    select r.id, r.finished_at, r.tableoid as part, r.ctid as place
                    from turnabout.history r
                    where r.queue_id = drop_history.queue_id and r.outcome = 1
                        and r.finished_at < done_before
                    order by r.finished_at, r.id limit most for update skip locked
                ) done
                union all
                select failed.* from (
                    select r.id, r.finished_at, r.tableoid as part, r.ctid as place
                    from turnabout.history r
                    where r.queue_id = drop_history.queue_id and r.outcome > 1
                        and r.finished_at < failed_before
                    order by r.finished_at, r.id limit most for update skip locked
                ) failed
            ) o
            order by o.finished_at, o.id limit most
        ) old
        -- A redriven message may have ended twice in one millisecond.
        where h.id = old.id and h.finished_at = old.finished_at
            and h.tableoid = old.part and h.ctid = old.place
        returning h.xid, h.id
    ),
    counted as (
        select g.xid, g.id, count(*) over () as count from gone g order by g.xid desc, g.id desc
        limit 1
    )
    select c.count, c.xid, c.id into v_count, v_xid, v_id from counted c;
    perform turnabout.note_floor(v_xid, v_id);
    return coalesce(v_count, 0);
end $$;
