-- Bring a role's rights in line with turnabout.permission: usage of our schemas, a look at the
-- ledger, the functions of its kinds in every set, the inbox, and to operate the views for bulk
-- reading. No table of messages is among them: functions and views act with the rights of their
-- owner.
create or replace function turnabout.grant_to(role_name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_kinds text[] := array(
        select p.kind from turnabout.permission p where p.role_name = grant_to.role_name
    );
    v_inbox regclass := (
        select t.tgrelid from pg_trigger t where t.tgfoid = to_regproc('turnabout.inbox_insert')
        limit 1
    );
    v_schema text; v_view text; v_function regprocedure;
begin
    -- 1. What it had. A role that is gone has nothing left.
    if grant_to.role_name <> 'public'
        and not exists (select from pg_roles r where r.rolname = grant_to.role_name)
    then
        delete from turnabout.permission p where p.role_name = grant_to.role_name;
        return;
    end if;
    for v_schema in select 'turnabout' union all select r.place from turnabout.revision r
    loop
        execute format('revoke execute on all functions in schema %I from %I', v_schema, role_name);
        execute format('revoke usage on schema %I from %I', v_schema, role_name);
        if v_kinds <> '{}' then
            execute format('grant usage on schema %I to %I', v_schema, role_name);
        end if;
    end loop;
    execute format('revoke select on turnabout.version, turnabout.revision from %I', role_name);
    execute format('revoke insert, select on %s from %I', v_inbox, role_name);
    for v_view in select unnest(r.views) from turnabout.revision r loop
        execute format('revoke select on turnabout.%I from %I', v_view, role_name);
        if 'operate' = any (v_kinds) then
            execute format('grant select on turnabout.%I to %I', v_view, role_name);
        end if;
    end loop;

    -- 2. What it may.
    if v_kinds = '{}' then return; end if;
    execute format('grant select on turnabout.version, turnabout.revision to %I', role_name);
    if 'produce' = any (v_kinds) or 'operate' = any (v_kinds) then
        execute format('grant insert, select on %s to %I', v_inbox, role_name);
    end if;
    for v_function in
        with sets as (
            select r.place, r.kinds from turnabout.revision r
            union all
            (
                select 'turnabout', r.kinds from turnabout.revision r where r.slice = ''
                order by r.number desc limit 1
            )
        )
        select p.oid from sets s
        join pg_namespace n on n.nspname = s.place
        join pg_proc p on p.pronamespace = n.oid
        where exists (select from unnest(v_kinds) k (kind) where s.kinds->k.kind ? p.proname::text)
    loop
        execute format('grant execute on function %s to %I', v_function, role_name);
    end loop;
end $$;
