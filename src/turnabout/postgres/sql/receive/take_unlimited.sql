-- Take up to `most` heads from the line without limits, the channels in turn.
--
-- Uses the everyday statement's part, which explains itself. Messages sent before their channel
-- became limited (there may be some if `rows`) stay.
--
-- `is_dry`: there is nothing to find. Otherwise, if fewer came than were asked for, others hold the
-- rest.
create or replace function turnabout.take_unlimited(
    queue_id int, most int, quantum int, start text, rows boolean, now_ms bigint,
    out ids bigint[], out is_dry boolean
) language plpgsql as $$
declare
    v_left int := most;
    v_start text collate "C" := start;
    v_visits int := (most + quantum - 1) / quantum;
    v_some bigint[];
    v_met boolean := false;  -- the last look found nothing, or only what others hold
    v_walked bigint := turnabout.line_walked();
begin
    ids := '{}'; is_dry := false;
    loop
        with recursive facts as (
            select take_unlimited.queue_id as id, now_ms as now, v_start as start,
                take_unlimited.quantum
        ),
        {{take_in_turn most = v_left; open = not take_unlimited.rows or {{open_without_policy}}}}
        select array_agg(g.id) into v_some from gone g;
        ids := ids || v_some;
        v_left := most - cardinality(ids);
        if v_some is not null and turnabout.line_walked() > v_walked + 64 + 32 * v_visits then
            perform turnabout.set_head_marks(take_unlimited.queue_id, v_some);
            v_walked := turnabout.line_walked();
        end if;
        -- Less than asked for: the queue is dry, few channels are left, or others work here. Go on
        -- elsewhere, so that receivers that have met part again.
        exit when v_left = 0 or v_met and v_some is null;
        v_met := v_some is null;
        is_dry := v_met and turnabout.line_is_empty(take_unlimited.queue_id) is not false;
        exit when is_dry;
        v_start := coalesce(turnabout.random_channel(take_unlimited.queue_id), v_start);
        v_visits := (v_left + quantum - 1) / quantum;
    end loop;
end $$;
