-- The tables of Turnabout. What they mean: docs/design/scheduling.md.
--
-- Channel names sort by their bytes (collate "C"), so that the skip scan's order does not depend on
-- the database's locale. Instants are milliseconds since 1970, durations are milliseconds.

create table turnabout.queue (
    id int generated always as identity primary key,
    name text collate "C" not null unique,
    lease_ms bigint not null,
    max_attempts int,
    backoff_ms bigint not null,
    backoff_max_ms bigint not null,
    backoff_jitter_percent int not null,
    delay_ms bigint not null,
    fifo boolean not null,
    paused boolean not null,
    dead_letter text collate "C",
    history_ms bigint not null,
    max_concurrency int,
    rate_count int,
    rate_period_ms bigint,
    rate_burst int,
    rate_interval_us bigint,
    max_size int,
    weight int,
    created_at bigint not null,
    -- receive looks for due messages after this; above 0 only while dead entries are in its way
    timers_since bigint not null default 0,
    -- every channel of this queue has a row in channel, made when it is first needed
    limited boolean not null generated always as (
        fifo or max_concurrency is not null or rate_count is not null
        or max_size is not null or weight is not null
    ) stored
);

-- Unfinished messages. Fixed-width columns first, so that rows carry no padding.
create table turnabout.message (
    id bigint generated always as identity primary key,
    at bigint not null,
    sent_at bigint not null,
    leased_at bigint,
    queue_id int not null,
    attempt int not null default 0,
    failures int not null default 0,
    crashes int not null default 0,
    priority smallint not null,
    status smallint not null,  -- 0 ready, 1 scheduled, 2 leased
    limited boolean not null,
    channel text collate "C" not null,
    content_type text not null,
    headers text,
    payload bytea not null,
    state bytea,
    first_error text,
    last_error text,
    origin text
) with (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_cost_delay = 0
);

create index message_ready on turnabout.message (queue_id, channel, priority, id)
    where status = 0 and not limited;
create index message_limited on turnabout.message (queue_id, channel, status, priority, id)
    where limited;
create index message_timer on turnabout.message (queue_id, at, id)
    where status > 0;

-- Rows with negative ids are buoys, see functions/lay_buoys.sql.
create index message_buoy on turnabout.message (queue_id, id) where id < 0;

-- Channels with limits, now or before. Only receive and policy changes lock these rows.
create table turnabout.channel (
    queue_id int not null,
    name text collate "C" not null,
    max_concurrency int,
    rate_count int,
    rate_period_ms bigint,
    rate_burst int,
    rate_interval_us bigint,
    max_size int,
    weight int,
    paused boolean not null default false,
    own boolean not null default false,  -- has a policy of its own
    awake boolean not null default true,
    wake_at bigint,                      -- asleep until then; null: until something wakes it
    rate_tat_us bigint not null default 0,
    -- of its own, so that nothing but its index leads from one awake channel to the next
    awake_name text collate "C" generated always as (case when awake then name end) stored,
    primary key (queue_id, name)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index channel_awake on turnabout.channel (queue_id, awake_name) where awake_name is not null;
create index channel_timer on turnabout.channel (queue_id, wake_at) where wake_at is not null;

-- News for limited channels. Only inserted and deleted, so nobody waits for anybody (P13).
create table turnabout.wake (
    id bigint generated always as identity primary key,
    queue_id int not null,
    channel text collate "C" not null,
    policy jsonb  -- null: look again; else the channel's policy as it is from now on
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index wake_queue on turnabout.wake (queue_id, id);
create index wake_policy on turnabout.wake (queue_id, channel) where policy is not null;

-- Finished messages.
create table turnabout.history (
    id bigint not null,
    sent_at bigint not null,
    leased_at bigint,
    finished_at bigint not null,
    queue_id int not null,
    attempt int not null,
    failures int not null,
    crashes int not null,
    outcome smallint not null,  -- 1 done, 2 dead, 3 cancelled
    channel text collate "C" not null,
    error text
);

create index history_id on turnabout.history (id);
create index history_finished on turnabout.history using brin (finished_at)
    with (pages_per_range = 32, autosummarize = on);

-- Counts, in parts that are only inserted; tend folds a queue's parts into one.
create table turnabout.tally (
    queue_id int not null,
    sent bigint not null default 0,
    done bigint not null default 0,
    dead bigint not null default 0,
    cancelled bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A message as receive hands it out.
create type turnabout.delivery as (
    id bigint,
    attempt int,
    channel text,
    priority smallint,
    payload bytea,
    content_type text,
    headers text,
    state bytea,
    failures int,
    crashes int,
    sent_at bigint,
    at bigint,       -- the lease's end
    lease_ms bigint
);
