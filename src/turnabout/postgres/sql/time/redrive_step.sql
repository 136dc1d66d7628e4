-- Move the next messages of a running redrive. A caller that finds another at it, or comes too
-- early, gets the row as it is. `notified` names the queues that have something new.
create or replace function turnabout.redrive_step(
    id bigint, now_ms turnabout.instant default null, namespace text default null,
    out redrive turnabout.redrive, out notified text[]
) language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(redrive_step.now_ms, turnabout.clock_ms());
    v_most int; v_look record; v_judged record;
    v_move bigint[] := '{}';
    v_skipped int := 0;
    v_is_end boolean := false;
begin
    notified := '{}';
    if redrive_step.namespace is not null then
        perform turnabout.find_redrive(redrive_step.id, redrive_step.namespace);
    end if;
    select r.* into redrive from turnabout.redrive r where r.id = redrive_step.id
    for update skip locked;
    if redrive.id is null then
        redrive := turnabout.find_redrive(redrive_step.id);
        return;
    end if;
    -- (Further ahead than its rate allows: the clock was set back.)
    if redrive.state <> 'running' or redrive.next_at between v_now + 1 and v_now + 10000 then
        return;
    end if;
    v_most := least(1000, coalesce(redrive.per_second, 1000));

    -- 1. Look at messages that died; when they end, at all others. Lock them and judge them then.
    loop
        select * into v_look from turnabout.redrive_look(redrive, least(1000, 10 * v_most + 100));
        select * into v_judged
        from turnabout.redrive_judge(redrive, v_look.ids, v_most - cardinality(v_move));
        v_move := v_move || v_judged.move;
        v_skipped := v_skipped + v_judged.skipped;
        redrive.last_id := coalesce(v_judged.last_id, v_look.last_id, redrive.last_id);
        v_is_end := v_judged.last_id is null and not v_look.more;
        exit when not v_is_end or redrive.phase = 2;
        redrive.phase := 2; redrive.last_id := 0; v_is_end := false;
        exit when cardinality(v_move) = v_most;
    end loop;

    -- 2. Move them, each to its queue, and note how far it has come.
    if cardinality(v_move) > 0 then
        notified := turnabout.redrive_messages(redrive, v_move, v_now);
    end if;
    update turnabout.redrive r set moved = r.moved + cardinality(v_move),
        skipped = r.skipped + v_skipped, phase = redrive.phase, last_id = redrive.last_id,
        state = case when v_is_end then 'done' else 'running' end,
        finished_at = case when v_is_end then v_now end,
        next_at = case when not v_is_end then
            v_now + (cardinality(v_move) * 1000 + r.per_second - 1) / r.per_second end
    where r.id = redrive_step.id returning r.* into redrive;
end $$;
