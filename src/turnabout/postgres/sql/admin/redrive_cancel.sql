-- Stop a running redrive where it is; one that has ended is left as it is. A step that is under way
-- is not waited for: then SQLSTATE 55P03 after a few tries.
create or replace function turnabout.redrive_cancel(
    id bigint, now_ms turnabout.instant default null, namespace text default null
) returns turnabout.redrive language plpgsql as $$  -- plans: free
declare
    v_ends_at timestamptz := clock_timestamp() + interval '1 s';
    v_row turnabout.redrive := turnabout.find_redrive(redrive_cancel.id, redrive_cancel.namespace);
begin
    loop
        select r.* into v_row from turnabout.redrive r where r.id = redrive_cancel.id
        for update skip locked;
        exit when found;
        perform turnabout.pause_or_give_up(v_ends_at);
    end loop;
    if v_row.state = 'running' then
        update turnabout.redrive r set state = 'cancelled', next_at = null,
            finished_at = coalesce(redrive_cancel.now_ms, turnabout.clock_ms())
        where r.id = redrive_cancel.id returning r.* into v_row;
    end if;
    return v_row;
end $$;
