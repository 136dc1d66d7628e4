-- What was installed, and who may use it. Run by every install: what is there stays.
create schema if not exists turnabout;

create table if not exists turnabout.version (
    number int primary key,
    name text not null,
    functions text not null,
    -- the oldest revision of the functions that works on the tables from this step on
    oldest int not null default 1,
    applied_at timestamptz not null default clock_timestamp()
);

-- The sets of functions: one in each schema turnabout_r<number>, the last of them in turnabout too.
-- kinds: the names of the functions that each kind of permission is for.
create table if not exists turnabout.revision (
    number int primary key,
    digest text not null,
    kinds jsonb not null,
    installed_at timestamptz not null default clock_timestamp()
);

-- Which roles may do what; every install grants it anew.
create table if not exists turnabout.permission (
    role_name text not null,
    kind text not null,
    primary key (role_name, kind)
);
