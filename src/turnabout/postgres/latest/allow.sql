-- Let a role produce, consume or operate. Remembered: it holds for the sets of later installs, too.
-- One that produces may be held to queues of some names (`*` is any characters), and to another
-- size of payloads than 1 MiB; said again, that is changed.
create or replace function turnabout.allow(
    role_name text, kind text, queues text[] default null, max_payload_bytes int default null
) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if allow.kind is null or allow.kind not in ('produce', 'consume', 'operate') then
        raise exception 'a permission is one of produce, consume, operate, not %',
            coalesce(quote_literal(allow.kind), 'null') using errcode = '22023';
    end if;
    if allow.kind <> 'produce' and num_nonnulls(allow.queues, allow.max_payload_bytes) > 0 then
        raise exception 'queues and max_payload_bytes are for produce, not for %', allow.kind
            using errcode = '22023';
    end if;
    if cardinality(allow.queues) = 0 or exists (
        select from unnest(allow.queues) q (pattern)
        where q.pattern is null or q.pattern !~ '^[A-Za-z0-9_.*/-]+$'
    ) then
        raise exception 'queues are names, with * for any part, not %',
            quote_literal(left(allow.queues::text, 80)) using errcode = '22023';
    end if;
    if allow.max_payload_bytes not between 1 and 268435456 then
        raise exception 'max_payload_bytes is 1 to 268435456, not %', allow.max_payload_bytes
            using errcode = '22023';
    end if;
    if allow.role_name is distinct from 'public'
        and not exists (select from pg_roles r where r.rolname = allow.role_name)
    then
        raise exception 'there is no role %: make it (create role …)',
            coalesce(quote_literal(allow.role_name), 'null') using errcode = '22023';
    end if;
    if exists (
        select from pg_namespace n join pg_roles r on r.oid = n.nspowner
        where n.nspname = 'turnabout' and r.rolname = allow.role_name
    ) then
        raise exception 'the role % owns the schema turnabout: it may do everything',
            quote_literal(allow.role_name) using errcode = '22023';
    end if;
    perform turnabout.forget_strangers();
    insert into turnabout.permission as p (role_name, kind, queues, max_payload_bytes)
    values (
        allow.role_name, allow.kind, allow.queues, coalesce(
            allow.max_payload_bytes, case allow.kind when 'operate' then 268435456 else 1048576 end)
    ) on conflict on constraint permission_pkey do update
    set queues = excluded.queues, max_payload_bytes = excluded.max_payload_bytes;
    perform turnabout.grant_to(allow.role_name);
end $$;
