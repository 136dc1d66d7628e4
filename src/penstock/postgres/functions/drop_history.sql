-- Remove up to `most` of the oldest rows of a queue's history: done ones from before one instant,
-- all others from before another. Answers with how many. What others hold is skipped.
create or replace function penstock.drop_history(
    queue_id int, done_before bigint, failed_before bigint, most int
) returns int
language plpgsql as $$
#variable_conflict use_column
declare
    v_count int;
begin
    delete from penstock.history h
    using (
        select o.id, o.finished_at
        from (
            select done.* from (
                select r.id, r.finished_at from penstock.history r
                where r.queue_id = drop_history.queue_id and r.outcome = 1
                    and r.finished_at < done_before
                order by r.finished_at, r.id
                limit most
                for update skip locked
            ) done
            union all
            select failed.* from (
                select r.id, r.finished_at from penstock.history r
                where r.queue_id = drop_history.queue_id and r.outcome > 1
                    and r.finished_at < failed_before
                order by r.finished_at, r.id
                limit most
                for update skip locked
            ) failed
        ) o
        order by o.finished_at, o.id
        limit most
    ) old
    where h.id = old.id and h.finished_at = old.finished_at
        and h.queue_id + 0 = drop_history.queue_id;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
