-- End messages that are the caller's (locked, or taken from where they stood): history, events,
-- counts, slots and wakes of limited channels.
-- `outcome`: see keep_history. Answers with how many.
create or replace function turnabout.end_messages(
    queue turnabout.queue, ids bigint[], outcome int, now_ms bigint
) returns int language plpgsql as $$
declare
    v_count int; v_ids bigint[]; v_channels text[];
begin
    if queue.events = 'all' then
        perform turnabout.note_events(
            queue, ids, (array['done', 'dead', 'cancelled', 'expired'])[outcome], now_ms);
    end if;
    perform turnabout.keep_history(queue, ids, end_messages.outcome, now_ms);
    with gone as (delete from turnabout.message m where m.id = any (ids) returning m.id, m.channel)
    select count(*)::int, array_agg(g.id), array_agg(g.channel) into v_count, v_ids, v_channels
    from gone g;
    perform turnabout.give_back_slots(queue, v_ids, v_channels);
    if v_count > 0 then
        insert into turnabout.tally (queue_id, dead, cancelled, expired)
        values (
            queue.id, case when outcome = 2 then v_count end,
            case when outcome = 3 then v_count end, case when outcome = 4 then v_count end
        );
    end if;
    return v_count;
end $$;
