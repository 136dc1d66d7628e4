-- Finished messages, the newest first: up to `most` after the place (before_at, before_id,
-- before_rest). The two kinds of rows stand in two indexes.
--
-- A message that was redriven may end twice in one millisecond: `rest` tells such rows apart, by
-- transaction, attempt and outcome. Cursors of earlier libraries have none, and mean the first of
-- them.
create or replace function turnabout.history(
    queue text, most int, outcome text default null, channel turnabout.channel_name default null,
    error text default null, finished_from bigint default null, finished_until bigint default null,
    before_at bigint default null, before_id bigint default null,
    now_ms turnabout.instant default null, before_rest text default null
) returns table (
    id bigint, of_channel text, ended text, sent_at bigint, leased_at bigint, finished_at bigint,
    attempt int, failures int, crashes int, last_error text, result bytea, result_type text,
    payload bytea, content_type text, headers text, note text, rest text
) language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(history.queue, false);
    v_now bigint := coalesce(history.now_ms, turnabout.clock_ms());
    v_from bigint := coalesce(history.finished_from, 0);
    v_done_from bigint := greatest(v_from, v_now - v_queue.history_ms);
    v_failed_from bigint := greatest(
        v_from, v_now - coalesce(v_queue.history_failed_ms, v_queue.history_ms));
    v_until bigint := coalesce(history.finished_until, 9000000000000000);
    v_at bigint := coalesce(history.before_at, 9000000000000000);
    v_id bigint := coalesce(history.before_id, 0);
    v_error text := history.error;
    v_channel text := history.channel;
    v_outcome text := history.outcome;
    v_xid xid8 := split_part(history.before_rest, '.', 1)::xid8;
    v_attempt int := split_part(history.before_rest, '.', 2);
    v_code smallint := split_part(history.before_rest, '.', 3);
begin
    return query
    select h.id, h.channel::text, turnabout.outcome_name(h.outcome), h.sent_at, h.leased_at,
        h.finished_at, h.attempt, h.failures, h.crashes, h.error, h.result, h.result_type,
        h.payload, h.content_type, h.headers, h.note,
        h.xid::text || '.' || h.attempt || '.' || h.outcome
    from (
        (select r.* from turnabout.history r
        where r.queue_id = v_queue.id and r.outcome = 1 and coalesce(v_outcome, 'done') = 'done'
            and (r.finished_at, r.id) <= (v_at, v_id)
            and (r.finished_at < v_at or r.id < v_id
                or (r.xid, r.attempt, r.outcome) < (v_xid, v_attempt, v_code))
            and r.finished_at >= v_done_from and r.finished_at < v_until
            and (v_channel is null or r.channel = v_channel)
            and (v_error is null or position(v_error in r.error) > 0)
        order by r.finished_at desc, r.id desc, r.xid desc nulls last, r.attempt desc,
            r.outcome desc
        limit history.most)
        union all
        (select r.* from turnabout.history r
        where r.queue_id = v_queue.id and r.outcome > 1 and coalesce(v_outcome, '') <> 'done'
            and (v_outcome is null or turnabout.outcome_name(r.outcome) = v_outcome)
            and (r.finished_at, r.id) <= (v_at, v_id)
            and (r.finished_at < v_at or r.id < v_id
                or (r.xid, r.attempt, r.outcome) < (v_xid, v_attempt, v_code))
            and r.finished_at >= v_failed_from and r.finished_at < v_until
            and (v_channel is null or r.channel = v_channel)
            and (v_error is null or position(v_error in r.error) > 0)
        order by r.finished_at desc, r.id desc, r.xid desc nulls last, r.attempt desc,
            r.outcome desc
        limit history.most)
    ) h
    order by h.finished_at desc, h.id desc, h.xid desc nulls last, h.attempt desc, h.outcome desc
    limit history.most;
end $$;
