-- Make a queue, and its dead-letter queue if that is missing. A queue of that name is left as it
-- is, and the answer is null. `settings` holds columns of turnabout.queue; the rest takes the
-- default.
create or replace function turnabout.queue_create(
    queue text, settings jsonb default '{}', now_ms turnabout.instant default null
) returns turnabout.queue language plpgsql as $$  -- plans: free
declare
    v_now bigint := coalesce(queue_create.now_ms, turnabout.clock_ms());
    v_dead_letter text := queue_create.settings ->> 'dead_letter';
    v_row turnabout.queue;
begin
    -- What has made either queue meanwhile is waited for, then looked at. A dead-letter queue by
    -- default closes no ring that does not end in one that was named.
    if queue_create.settings is null or jsonb_typeof(queue_create.settings) <> 'object' then
        raise exception 'settings are a JSON object, {} for the defaults' using errcode = '22023';
    end if;
    if v_dead_letter is not null then perform turnabout.lock_dead_letter_queues(); end if;
    if v_dead_letter is null and queue_create.queue not like '%-dead' then
        v_dead_letter := queue_create.queue || '-dead';
    end if;
    v_row := turnabout.insert_queue(
        queue_create.queue,
        queue_create.settings || jsonb_build_object('dead_letter', v_dead_letter), v_now);
    if v_row.id is not null and v_dead_letter is not null then
        perform turnabout.insert_queue(v_dead_letter, '{"max_attempts": null}', v_now);
        perform turnabout.check_dead_letter_queue(v_row.name, v_dead_letter);
    end if;
    -- Asked before the first send of a caller's transaction, which can't rebuild.
    if v_row.id is null then perform turnabout.require_places(); end if;
    return v_row;
end $$;
