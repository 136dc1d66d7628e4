-- Note a redrive; a dry run counts at once what it would do, and changes nothing else.
-- `started_by` is the caller's word, to which the role is added unless it is the owner's.
create or replace function turnabout.redrive_start(
    queue text, target text default null, channel turnabout.channel_name default null,
    died_from bigint default null, died_until bigint default null, error text default null,
    per_second int default null, max_redrives int default 3, dry_run boolean default false,
    now_ms turnabout.instant default null, ids bigint[] default null, started_by text default null
) returns turnabout.redrive language plpgsql as $$  -- plans: pinned
declare
    v_queue turnabout.queue := turnabout.find_queue(redrive_start.queue);
    v_now bigint := coalesce(redrive_start.now_ms, turnabout.clock_ms());
    v_row turnabout.redrive;
begin
    if redrive_start.target = v_queue.name then
        raise exception 'a redrive of % to itself', quote_literal(v_queue.name)
            using errcode = 'PQ409', hint = 'name another queue, or none';
    end if;
    if redrive_start.target is not null
        and not exists (select from turnabout.queue q where q.name = redrive_start.target)
    then
        raise exception 'there is no queue %', quote_literal(redrive_start.target)
            using errcode = 'PQ409', hint = 'create it first';
    end if;
    insert into turnabout.redrive (
        queue_id, queue, target, channel, died_from, died_until, error, ids, started_by,
        per_second, max_redrives, state, phase, created_at
    ) values (
        v_queue.id, v_queue.name, redrive_start.target, redrive_start.channel,
        redrive_start.died_from, redrive_start.died_until, redrive_start.error, redrive_start.ids,
        concat_ws(', ', redrive_start.started_by, case
            when redrive_start.started_by is null
                or not has_schema_privilege(session_user, 'turnabout', 'create')
            then 'role ' || session_user end),
        redrive_start.per_second, redrive_start.max_redrives,
        case when dry_run then 'dry_run' else 'running' end,
        case when redrive_start.ids is null then 1 else 2 end, v_now
    )
    returning * into v_row;
    if dry_run then
        update turnabout.redrive r
        set moved = found.moved, skipped = found.skipped, finished_at = v_now
        from (
            select count(*) filter (where a.target <> '') as moved,
                count(*) filter (where a.target = '') as skipped
            from (
                select turnabout.redrive_target(v_row, m.channel, m.origin) as target from (
                    select r.id from turnabout.ready r where r.queue_id = v_queue.id and r.id > 0
                    union all
                    select s.id from turnabout.scheduled s where s.queue_id = v_queue.id
                ) w
                join turnabout.message m on m.id = w.id
                where v_row.ids is null or m.id = any (v_row.ids)
            ) a
        ) found
        where r.id = v_row.id returning r.* into v_row;
    end if;
    return v_row;
end $$;
