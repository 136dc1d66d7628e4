-- End messages as done. Answers null if all are done; else for each receipt what its message is
-- now, null for those that are done. `results` and `result_types`, one for each receipt, stay in
-- the history.
--
-- With `wait_for_locks` it is quick and all or nothing: it waits a little for rows that others
-- hold, and if then not every receipt is a current lease, it fails with SQLSTATE 55P03
-- (lock_not_available), to be repeated without. For a transaction of its own only; in any other it
-- is as if without.
-- plans: pinned
create or replace function turnabout.ack(
    queue text, ids bigint[], attempts int[], now_ms bigint default null,
    wait_for_locks boolean default false, results bytea[] default null,
    result_types text[] default null
) returns text[]
language plpgsql
set lock_timeout = '50ms'
as $$
declare
    v_queue_id int;
    v_history_ms bigint;
    v_limited boolean;
    v_more boolean;  -- more is kept than the common columns of history
    v_attempt int;
    v_ids bigint[] := ack.ids;
    v_count int := 0;
    v_rest int;
    v_now bigint;
    v_channels text[];
begin
    select q.id, q.history_ms, q.limited, q.history_payload or q.events = 'all'
    into v_queue_id, v_history_ms, v_limited, v_more
    from turnabout.queue q where q.name = ack.queue;
    if not found then
        perform turnabout.find_queue(ack.queue);
    end if;

    -- 1. Which rows. A transaction that has written nothing yet holds no row, so nobody waits for
    --    it and it may wait, a little. Any other waits for nobody.
    wait_for_locks := wait_for_locks and pg_current_xact_id_if_assigned() is null
        and ack.attempts[1] = all (ack.attempts);
    if wait_for_locks then
        v_attempt := ack.attempts[1];
    else
        v_ids := turnabout.lock_leases(v_queue_id, ack.ids, ack.attempts);
    end if;

    -- 2. End them. Without history and limits nothing has to be known of them but their number.
    if v_more or v_history_ms > 0 and ack.results is not null then
        select d.ended, d.channels into v_count, v_channels
        from turnabout.end_done(
            turnabout.find_queue(ack.queue), v_ids, v_attempt,
            coalesce(ack.now_ms, turnabout.clock_ms()), ack.ids, ack.results, ack.result_types) d;
    else
        if v_history_ms = 0 and not v_limited then
            delete from turnabout.message m
            where m.id = any (v_ids) and (v_attempt is null or m.attempt = v_attempt)
                and m.status + 0 = 2 and m.queue_id + 0 = v_queue_id and not m.limited;
            get diagnostics v_count = row_count;
        end if;
        if v_count < cardinality(v_ids) then
            v_now := coalesce(ack.now_ms, turnabout.clock_ms());
            with gone as (
                delete from turnabout.message m
                where m.id = any (v_ids) and (v_attempt is null or m.attempt = v_attempt)
                    and m.status + 0 = 2 and m.queue_id + 0 = v_queue_id
                returning m.id, m.sent_at, m.leased_at, m.attempt, m.failures, m.crashes, m.channel,
                    m.last_error, m.limited
            ),
            kept as (
                insert into turnabout.history (
                    id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes,
                    outcome, channel, error
                )
                select g.id, g.sent_at, g.leased_at, v_now, v_queue_id, g.attempt, g.failures,
                    g.crashes, 1, g.channel, g.last_error
                from gone g
                where v_history_ms > 0
            )
            select count(*), array_agg(g.channel) filter (where g.limited) into v_rest, v_channels
            from gone g;
            v_count := v_count + v_rest;
        end if;
    end if;
    if wait_for_locks and v_count < cardinality(ack.ids) then
        raise exception 'some leases are not held' using errcode = 'lock_not_available';
    end if;

    -- 3. Tell limited channels, count, and name what was lost.
    if v_channels is not null then
        insert into turnabout.wake (queue_id, channel)
        select distinct v_queue_id, c.name from unnest(v_channels) c (name);
    end if;
    if v_count > 0 then
        insert into turnabout.tally (queue_id, done) values (v_queue_id, v_count);
    end if;
    return case when v_count < cardinality(ack.ids)
        then turnabout.lost(v_queue_id, ack.ids, v_ids) end;
end
$$;
