-- End messages as done. Answers with the receipts that were not current leases: their place in the list, and
-- what the message is now. No rows: all are done.
create or replace function penstock.ack(
    queue text, ids bigint[], attempts int[], now_ms bigint default null
) returns table (nr int, now text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_queue penstock.queue := penstock.find_queue(ack.queue);
    v_held bigint[] := penstock.hold(v_queue.id, ack.ids, ack.attempts);
    v_channels text[];
begin
    if cardinality(v_held) > 0 then
        if v_queue.history_ms > 0 then
            with gone as (
                delete from penstock.message m where m.id = any (v_held) returning m.*
            ),
            kept as (
                insert into penstock.history (
                    id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes,
                    outcome, channel
                )
                select g.id, g.sent_at, g.leased_at,
                    coalesce(ack.now_ms, penstock.clock_ms()), g.queue_id, g.attempt, g.failures,
                    g.crashes, 1, g.channel
                from gone g
            )
            select array_agg(distinct g.channel) filter (where g.limited) into v_channels
            from gone g;
        else
            with gone as (
                delete from penstock.message m
                where m.id = any (v_held)
                returning m.channel, m.limited
            )
            select array_agg(distinct g.channel) filter (where g.limited) into v_channels
            from gone g;
        end if;
        if v_channels is not null then
            insert into penstock.wake (queue_id, channel) select v_queue.id, unnest(v_channels);
        end if;
        insert into penstock.tally (queue_id, done) values (v_queue.id, cardinality(v_held));
    end if;
    if cardinality(v_held) < cardinality(ack.ids) then
        return query select * from penstock.lost(v_queue.id, ack.ids, v_held);
    end if;
end
$$;
