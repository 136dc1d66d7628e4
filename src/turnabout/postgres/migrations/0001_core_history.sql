-- The tables of what was, and what will be: history, counts, events, redrives, schedules, waiters.

-- Finished messages, a partition a day; maintenance makes them ahead and drops them. The first one
-- ends with the day of the install; the default one takes what no day was made for.
-- xid puts rows in the order of commits.
create table turnabout.history (
    id bigint not null, sent_at bigint not null, leased_at bigint, finished_at bigint not null,
    queue_id int not null, attempt int not null, failures int not null, crashes int not null,
    outcome smallint not null,  -- 1 done, 2 dead, 3 cancelled, 4 expired
    channel text collate "C" not null, error text, result bytea, result_type text, payload bytea,
    content_type text, headers text, note text, xid xid8 not null default pg_current_xact_id()
) partition by range (finished_at);

create index history_id on turnabout.history (id);
-- Apart, as each kind has its own retention: a sweep never walks over rows that stay.
create index history_done on turnabout.history (queue_id, finished_at, id) where outcome = 1;
create index history_failed on turnabout.history (queue_id, finished_at, id) where outcome > 1;
create table turnabout.history_default partition of turnabout.history default;
create index history_default_day on turnabout.history_default (finished_at);

do $$
declare
    v_day bigint := 86400000;
    v_until bigint := ((extract(epoch from clock_timestamp()) * 1000)::bigint / v_day + 1) * v_day;
begin
    execute format(
        'create table turnabout.%I partition of turnabout.history'
        ' for values from (minvalue) to (%s)',
        'history_' || to_char(
            to_timestamp((v_until - v_day) / 1000) at time zone 'UTC', 'YYYYMMDD'),
        v_until);
end $$;

-- Where a publication is for all tables, nothing could be removed from one without an identity: a
-- key, or else the whole row. (It costs nothing where nobody replicates.)
do $$
declare
    v_table regclass;
begin
    for v_table in select t.relid from pg_partition_tree('turnabout.history') t loop
        execute format('alter table %s replica identity full', v_table);
    end loop;
end $$;

-- Positions in the order of commits up to which something was removed from history: the highest one
-- counts. Only inserted and deleted, so nobody waits for anybody.
create table turnabout.history_floor (
    xid xid8 not null, id bigint not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

alter table turnabout.history_floor replica identity full;
create index history_floor_log on turnabout.history_floor (xid, id);

-- Counts, in parts that are only inserted; maintenance folds a queue's parts into one. Null is
-- none, which takes no room: most parts count one thing, and all are written to the log.
create table turnabout.tally (
    sent bigint, done bigint, dead bigint, cancelled bigint, expired bigint, queue_id int not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

alter table turnabout.tally replica identity full;
-- A queue's counts must not cost what all others have sent.
create index tally_queue on turnabout.tally (queue_id);

-- Events, of queues that want all of them; only inserted, swept after a day.
create table turnabout.event (
    seq bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(), at bigint not null, message_id bigint not null,
    due_at bigint, queue_id int not null, attempt int not null, kind text not null,
    channel text collate "C" not null, note text
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

alter table turnabout.event replica identity full;
create index event_order on turnabout.event (queue_id, xid, seq);

-- Redrives, running and ended. phase: 1 looks at messages that died, 2 at all others. last_id: the
-- last one looked at in it. next_at: no step before that.
create table turnabout.redrive (
    id bigint generated always as identity primary key,
    queue_id int not null, queue text collate "C" not null, target text collate "C",
    channel text collate "C", died_from bigint, died_until bigint, error text,
    ids bigint[] check (cardinality(ids) <= 1000),
    started_by text check (octet_length(started_by) <= 2048),
    per_second int, max_redrives int not null, state text not null, moved bigint not null default 0,
    skipped bigint not null default 0, phase smallint not null default 1,
    last_id bigint not null default 0, next_at bigint, created_at bigint not null,
    finished_at bigint
);

create index redrive_running on turnabout.redrive (queue_id) where state = 'running';

-- Schedules. template: the message to send, without its payload.
create table turnabout.schedule (
    name text collate "C" primary key, queue text collate "C" not null, template jsonb not null,
    payload bytea not null,
    cron text check (octet_length(cron) <= 255),
    zone text not null, every_ms bigint check (every_ms between 1000 and 31622400000),
    anchor bigint not null check (anchor between 0 and 9000000000000000),
    at bigint check (at between 0 and 9000000000000000),
    missed text not null check (missed in ('skip', 'once', 'all')),
    overlap text not null check (overlap in ('allow', 'skip')),
    gap text not null check (gap in ('after', 'skip')),
    fold text not null check (fold in ('first', 'both')), paused boolean not null,
    next_at bigint check (next_at between 0 and 9000000000000000), last_at bigint, last_id bigint,
    sent bigint not null default 0, refused bigint not null default 0,
    check (num_nonnulls(cron, every_ms, at) = 1)
);

create index schedule_due on turnabout.schedule (next_at) where next_at is not null;

-- A message as receive hands it out, with the story of a dead one.
create type turnabout.delivery as (
    id bigint, attempt int, channel text, priority smallint, payload bytea, content_type text,
    headers text, state bytea, failures int, crashes int, sent_at bigint, origin text,
    at bigint,       -- the lease's end
    lease_ms bigint,
    lease bigint     -- its number
);

-- Processes that wait for something in a queue, until they are notified or `until` has passed.
-- changes: 1 a message for a receiver, 2 an end of a message, 3 either. A crash of the server
-- empties it: then waiters poll, and are back after a few seconds.
create unlogged table turnabout.waiter (
    until bigint not null, changes smallint not null,
    queue text collate "C" not null check (octet_length(queue) <= 160),
    -- what others notify by 'turnabout_' and this name: an identifier has at most 63 bytes
    process text collate "C" not null check (octet_length(process) <= 53),
    role oid not null default 0 -- whose session it is: none but it removes the rows of that process
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Only what is still valid is read: what died before lies behind it, however old a snapshot is. So
-- no other index is there: in one by process all its rows of before would stand at the same place.
create index waiter_valid on turnabout.waiter (queue, until);

-- What workers say of themselves, as JSON, for those who look. A queue is known by its name.
create unlogged table turnabout.worker (
    queue text collate "C" not null check (octet_length(queue) <= 160),
    worker text collate "C" not null check (octet_length(worker) <= 255),
    seen_at bigint not null,
    state text not null check (octet_length(state) <= 16384),
    primary key (queue, worker)
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

create index worker_seen on turnabout.worker (seen_at);
