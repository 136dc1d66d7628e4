-- Move messages that the caller has locked to the dead-letter queue, with their story; where there
-- is none they end here. Their ids and attempts stay, so old receipts stay void.
create or replace function penstock.bury(
    queue penstock.queue, ids bigint[], reason text, now_ms bigint
) returns void
language plpgsql as $$
#variable_conflict use_column
declare
    v_grave penstock.queue;
begin
    if queue.history_ms > 0 then
        insert into penstock.history (
            id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome,
            channel, error
        )
        select m.id, m.sent_at, m.leased_at, now_ms, m.queue_id, m.attempt, m.failures, m.crashes,
            2, m.channel, m.last_error
        from penstock.message m
        where m.id = any (ids);
    end if;
    insert into penstock.tally (queue_id, dead) values (queue.id, cardinality(ids));

    select * into v_grave from penstock.queue q where q.name = queue.dead_letter;
    if not found then
        delete from penstock.message m where m.id = any (ids);
        return;
    end if;

    insert into penstock.tally (queue_id, sent) values (v_grave.id, cardinality(ids));
    with moved as (
        update penstock.message m
        set queue_id = v_grave.id,
            status = 0,
            at = now_ms,
            leased_at = null,
            failures = 0,
            crashes = 0,
            first_error = null,
            last_error = null,
            limited = v_grave.limited or exists (
                select from penstock.channel c
                where c.queue_id = v_grave.id and c.name = m.channel
            ),
            origin = json_build_object(
                'queue', queue.name, 'reason', reason, 'failures', m.failures,
                'crashes', m.crashes, 'died_at', now_ms, 'first_error', m.first_error,
                'last_error', m.last_error
            )::text
        where m.id = any (ids)
        returning m.channel, m.limited
    )
    insert into penstock.wake (queue_id, channel)
    select distinct v_grave.id, m.channel from moved m where m.limited;
end
$$;
