-- What the whole life of a message needs: dedup, endings with results, time to live, cancel,
-- redrive, events, schedules. What they mean: docs/design/life.md.
-- oldest: 2

alter table turnabout.queue
    add pause_reason text,
    add on_exhausted text not null default 'dead_letter',
    add ttl_ms bigint,
    add max_messages int,
    add dedup_mode text not null default 'window',
    add dedup_window_ms bigint not null default 300000,
    add dedup_scope text not null default 'queue',
    add history_failed_ms bigint,
    add history_payload boolean not null default false,
    add events text not null default 'off';

alter table turnabout.message
    add expires_at bigint,
    add cancel_requested boolean not null default false;

-- What expires while it waits. Buoys stand here as well, at 0: so one look tells receive that there
-- is nothing of either kind.
create index message_expiry on turnabout.message (queue_id, expires_at)
    where expires_at is not null and status < 2;
update turnabout.message set expires_at = 0 where id < 0;

-- Buoys, and what a redrive walks through: messages that died once. One index, as each more costs
-- every send and every lease.
drop index turnabout.message_buoy;
create index message_odd on turnabout.message (queue_id, id) where id < 0 or origin is not null;

alter table turnabout.channel add pause_reason text;

alter table turnabout.tally add expired bigint not null default 0;

-- Dedup entries. Made and changed only under the advisory lock of their key. scope: '' for the
-- queue, '/' and the name for a channel. until_ms is null where the message's life decides.
create table turnabout.dedup (
    queue_id int not null,
    scope text collate "C" not null,
    key text collate "C" not null,
    message_id bigint not null,
    until_ms bigint,
    primary key (queue_id, scope, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index dedup_sweep on turnabout.dedup (queue_id, until_ms, message_id);

-- Finished messages, a partition a day; tend makes them ahead and drops them. The first one takes
-- what was there before, and ends with today; the default one takes what no day was made for.
-- outcome: 1 done, 2 dead, 3 cancelled, 4 expired. xid puts rows in the order of commits; null:
-- from before this column.
alter table turnabout.history rename to history_before;
drop index turnabout.history_id, turnabout.history_finished;
alter table turnabout.history_before
    add result bytea,
    add result_type text,
    add payload bytea,
    add content_type text,
    add headers text,
    add xid xid8;

create table turnabout.history (
    like turnabout.history_before
) partition by range (finished_at);

alter table turnabout.history alter column xid set default pg_current_xact_id();
create index history_id on turnabout.history (id);
-- Apart, as each kind has its own retention: a sweep never walks over rows that stay.
create index history_done on turnabout.history (queue_id, finished_at, id) where outcome = 1;
create index history_failed on turnabout.history (queue_id, finished_at, id) where outcome > 1;
alter table turnabout.history_before alter column xid set default pg_current_xact_id();
create table turnabout.history_default partition of turnabout.history default;
create index history_default_day on turnabout.history_default (finished_at);

do $$
declare
    v_day bigint := 86400000;
    v_until bigint;
    v_name text;
begin
    -- Tomorrow, or later if a clock was wrong.
    select (greatest(extract(epoch from clock_timestamp()) * 1000, max(h.finished_at))::bigint
        / v_day + 1) * v_day
    into v_until
    from turnabout.history_before h;
    v_name := 'history_' || to_char(
        to_timestamp((v_until - v_day) / 1000) at time zone 'UTC', 'YYYYMMDD');
    execute format('alter table turnabout.history_before rename to %I', v_name);
    execute format(
        'alter table turnabout.history attach partition turnabout.%I'
        ' for values from (minvalue) to (%s)',
        v_name, v_until);
end
$$;

-- Events, of queues that want all of them; only inserted, swept after a day.
create table turnabout.event (
    seq bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(),
    at bigint not null,
    message_id bigint not null,
    due_at bigint,
    queue_id int not null,
    attempt int not null,
    kind text not null,
    channel text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index event_order on turnabout.event (queue_id, xid, seq);

-- Redrives, running and ended. phase: 1 looks at messages that died, 2 at all others. last_id: the
-- last one looked at in it. next_at: no step before that.
create table turnabout.redrive (
    id bigint generated always as identity primary key,
    queue_id int not null,
    queue text collate "C" not null,
    target text collate "C",
    channel text collate "C",
    died_from bigint,
    died_until bigint,
    error text,
    per_second int,
    max_redrives int not null,
    state text not null,
    moved bigint not null default 0,
    skipped bigint not null default 0,
    phase smallint not null default 1,
    last_id bigint not null default 0,
    next_at bigint,
    created_at bigint not null,
    finished_at bigint
);

create index redrive_running on turnabout.redrive (queue_id) where state = 'running';

-- Schedules. template: the message to send, without its payload.
create table turnabout.schedule (
    name text collate "C" primary key,
    queue text collate "C" not null,
    template jsonb not null,
    payload bytea not null,
    cron text,
    zone text not null,
    every_ms bigint,
    anchor bigint not null,
    at bigint,
    missed text not null,
    overlap text not null,
    gap text not null,
    fold text not null,
    paused boolean not null,
    next_at bigint,
    last_at bigint,
    last_id bigint,
    sent bigint not null default 0
);

create index schedule_due on turnabout.schedule (next_at) where next_at is not null;
