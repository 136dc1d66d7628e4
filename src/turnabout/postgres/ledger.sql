-- What was installed, and who may use it. Run by every install: what is there stays.
create schema if not exists turnabout;

-- The steps that ran. slice: whose, '' for the core. functions: the digest of the set that came
-- with it; oldest: the oldest revision of that part's functions that works from then on.
create table if not exists turnabout.version (
    slice text not null, number int not null, name text not null, functions text not null,
    oldest int not null, applied_at timestamptz not null default clock_timestamp(),
    primary key (slice, number)
);

-- The sets of functions, each in a schema of its own; the core's latest one in turnabout, too.
-- core: the revision of the core's functions that it calls. kinds: the names of the functions that
-- each kind of permission is for; views: what a role that may operate can read.
create table if not exists turnabout.revision (
    place text primary key, slice text not null, number int not null, core int not null,
    digest text not null, kinds jsonb not null, views text[] not null,
    installed_at timestamptz not null default clock_timestamp()
);

-- Which roles may do what; every install grants it anew. queues: patterns of those that it may send
-- to, null for all; `*` is any characters.
create table if not exists turnabout.permission (
    role_name text not null, kind text not null, queues text[], max_payload_bytes int not null,
    primary key (role_name, kind)
);

-- Whether a role has a permission to send to a queue (null: to any) a payload of so many bytes;
-- below 0: to send there, or to receive. Domains ask, which what roles say meets before anything
-- acts with the owner's rights.
create or replace function turnabout.may_send(role_name text, queue text, bytes int) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return exists (
        select from turnabout.permission p
        left join pg_roles r on r.rolname = p.role_name
        left join pg_roles m on m.rolname = may_send.role_name
        where (p.kind <> 'consume' or bytes < 0) and bytes <= p.max_payload_bytes
            and (p.role_name = 'public' or pg_has_role(m.oid, r.oid, 'usage'))
            and (
                may_send.queue is null or p.queues is null or exists (
                    select from unnest(p.queues) q (pattern)
                    where may_send.queue like translate(replace(q.pattern, '_', E'\\_'), '*', '%')
                )
            )
    );
end $$;
