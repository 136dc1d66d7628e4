-- Whether earlier messages stand for all of these, so that sending them would add nothing.
create or replace function turnabout.repeats(
    queue text, channels turnabout.channel_name[], keys turnabout.dedup_key[],
    modes turnabout.dedup_mode[], scopes turnabout.dedup_scope[],
    now_ms turnabout.instant default null
) returns boolean language plpgsql as $$  -- plans: pinned
declare
    v_now bigint := coalesce(repeats.now_ms, turnabout.clock_ms());
    v_queue turnabout.queue; v_one record; v_what text;
begin
    select * into v_queue from turnabout.queue q where q.name = repeats.queue;
    if not found then return false; end if;
    for v_one in
        select u.key, coalesce(u.mode, v_queue.dedup_mode) as mode,
            case when coalesce(u.scope, v_queue.dedup_scope) = 'channel'
                then '/' || u.channel else '' end as scope
        from unnest(channels, keys, modes, scopes) u (channel, key, mode, scope)
    loop
        select j.what into v_what
        from turnabout.judge_key(v_queue.id, v_one.scope, v_one.key, v_one.mode, v_now) j;
        if v_one.key is null or v_what <> 'duplicate' then return false; end if;
    end loop;
    return true;
end $$;
