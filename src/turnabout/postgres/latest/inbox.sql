-- The view turnabout_inbox: an insert into it is a send. It shows nothing.
--
-- It stands where it stood before, else in the first schema of the search path of the installer,
-- else, if nothing may be created there or the name is taken, in the schema turnabout. Function and
-- view are replaced in place, so that the rights that were given on them stay.
create or replace function turnabout.inbox_insert() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if new.id is not null then
        raise exception 'the queue assigns the id of a message: leave it out'
            using errcode = '22023';
    end if;
    new.id := turnabout.send(
        queue => new.queue, payload => new.payload, channel => new.channel,
        priority => new.priority, delay_seconds => new.delay_seconds, headers => new.headers,
        content_type => new.content_type, ttl_seconds => new.ttl_seconds,
        dedup_key => new.dedup_key, dedup_mode => new.dedup_mode,
        dedup_window_seconds => new.dedup_window_seconds, dedup_scope => new.dedup_scope,
        due_at => new.due_at
    );
    return new;
end $$;

revoke execute on function turnabout.inbox_insert() from public;

do $inbox$
declare
    v_place text := (
        select n.nspname from pg_trigger t
        join pg_class c on c.oid = t.tgrelid
        join pg_namespace n on n.oid = c.relnamespace
        where t.tgfoid = 'turnabout.inbox_insert'::regproc
    );
begin
    if v_place is null then
        v_place := current_schema();
        if v_place is null
            or not has_schema_privilege(v_place, 'create')
            or to_regclass(format('%I.turnabout_inbox', v_place)) is not null
        then
            v_place := 'turnabout';
        end if;
    end if;
    execute format($view$
        create or replace view %I.turnabout_inbox as
        select null::bigint as id,
            null::turnabout.target as queue,
            null::text as payload,
            null::text as channel,
            null::int as priority,
            null::double precision as delay_seconds,
            null::jsonb as headers,
            null::text as content_type,
            null::double precision as ttl_seconds,
            null::text as dedup_key,
            null::text as dedup_mode,
            null::double precision as dedup_window_seconds,
            null::text as dedup_scope,
            null::timestamptz as due_at,
            null::text as created_at -- as in SMQ's inserts: a message has the time of its send
        where false
    $view$, v_place);
    execute format($trigger$
        create or replace trigger turnabout_inbox instead of insert on %I.turnabout_inbox
        for each row execute function turnabout.inbox_insert()
    $trigger$, v_place);
end
$inbox$;
