-- The queue to which a redrive takes a message; '' if it matches and has to stay (its queue is gone
-- or of another namespace, or it was redriven too often); null if it does not match. Only a named
-- target leads to another namespace.
create or replace function turnabout.redrive_target(
    redrive turnabout.redrive, channel text, origin text
) returns text language plpgsql stable as $$
declare
    v_story jsonb := origin::jsonb;
    v_died_at bigint := v_story ->> 'died_at';
    v_target text := coalesce(redrive.target, v_story ->> 'queue');
begin
    if redrive.channel is not null and channel <> redrive.channel
        or redrive.died_from is not null and coalesce(v_died_at < redrive.died_from, true)
        or redrive.died_until is not null and coalesce(v_died_at >= redrive.died_until, true)
        or redrive.error is not null
            and coalesce(position(redrive.error in v_story ->> 'last_error'), 0) = 0
    then
        return null;
    end if;
    if coalesce((v_story ->> 'redrives')::int, 0) >= redrive.max_redrives
        or not exists (select from turnabout.queue q where q.name = v_target)
        or redrive.target is null
            and left(v_target, greatest(position('/' in v_target), 1) - 1)
                <> left(redrive.queue, greatest(position('/' in redrive.queue), 1) - 1)
    then
        return '';
    end if;
    return v_target;
end $$;
