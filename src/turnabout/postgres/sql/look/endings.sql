-- How messages of the queue ended, in the order of `ids`. A null outcome: it is unfinished, or its
-- id was never given out. `unknown`: it has ended, and history does not tell how.
create or replace function turnabout.endings(
    queue text, ids bigint[], now_ms turnabout.instant default null
) returns table (
    id bigint, outcome text, finished_at bigint, attempt int, failures int, crashes int, error text,
    result bytea, result_type text, note text
) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(endings.queue, false);
    v_now bigint := coalesce(endings.now_ms, turnabout.clock_ms());
    v_last bigint := pg_sequence_last_value('turnabout.message_id_seq'::regclass);
begin
    -- One statement, so that no message is missed on its way from one table to the other.
    return query
    select t.id, case
            when live.id is not null then null
            when h.outcome is not null then turnabout.outcome_name(h.outcome)
            when t.id <= v_last then 'unknown'
        end,
        h.finished_at, h.attempt, h.failures, h.crashes, h.error, h.result, h.result_type, h.note
    from unnest(endings.ids) with ordinality t (id, nr)
    left join lateral (
        select m.id from turnabout.message m where m.id = t.id and m.queue_id + 0 = v_queue.id
        offset 0
    ) live on true
    left join lateral (
        select r.* from turnabout.history r
        where r.id = t.id and r.queue_id + 0 = v_queue.id
            and r.finished_at >= v_now - case when r.outcome = 1 then v_queue.history_ms
                else coalesce(v_queue.history_failed_ms, v_queue.history_ms) end
        order by r.finished_at desc, r.xid desc nulls last limit 1
    ) h on live.id is null
    order by t.nr;
end $$;
