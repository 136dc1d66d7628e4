-- The tables of Turnabout: types, queues, messages and where they stand. The step's other file has
-- what was, and what will be. What they mean: docs/design/scheduling.md and docs/design/life.md.
--
-- Channel names sort by their bytes (collate "C"), so that the skip scan's order does not depend on
-- the database's locale. Instants are milliseconds since 1970, durations are milliseconds.

-- What functions may be told. A role with a permission calls them with the rights of the owner, so
-- they trust nothing: the types of their arguments say what each may be, as words/limits.py does.
-- Checks are made where a call stands, with the rights of who wrote it.

-- Another time than the clock's: for the owner, in tests, and for functions that call others. None
-- but the owner may create anything in our schema.
create domain turnabout.instant as bigint constraint only_the_owner_tells_the_time
    check (value is null or has_schema_privilege('turnabout', 'create'));

-- A queue that somebody sends to, and what: by permission (ledger.sql). The schema is the owner's.
create domain turnabout.target as text constraint the_role_may_send_to_that_queue check (
    has_schema_privilege('turnabout', 'create') or turnabout.may_send(current_user::text, value, 0)
);

-- A queue that others are told of: by who may send there, or may receive.
create domain turnabout.known_queue as text constraint the_role_may_use_that_queue check (
    has_schema_privilege('turnabout', 'create') or turnabout.may_send(current_user::text, value, -1)
);

create domain turnabout.payload as bytea constraint a_payload_has_1_mib_or_what_was_granted check (
    octet_length(value) <= 1048576 or octet_length(value) <= 268435456 and (
        has_schema_privilege('turnabout', 'create')
        or turnabout.may_send(current_user::text, null, octet_length(value))
    )
);

create domain turnabout.channel_name as text constraint a_channels_name_has_at_most_255_bytes
    check (octet_length(value) <= 255);

create domain turnabout.content_type as text
    constraint a_content_type_has_1_to_255_printable_characters check (
        value in ('application/json', 'application/octet-stream')
        or length(value) between 1 and 255 and value !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
    );

-- A JSON object of texts. (64 of them, 16 KiB together: JSON says a byte in six at most, and 65 of
-- them in no less than 449.)
create domain turnabout.headers as text constraint headers_are_a_json_object_of_texts check (
    octet_length(value) <= 98816
    and jsonb_path_match(value::jsonb, 'strict $.type() == "object"
        && !exists($.keyvalue() ? (@.key == "" || @.value.type() != "string"))')
    and (
        octet_length(value) < 449
        or jsonb_array_length(jsonb_path_query_array(value::jsonb, '$.*')) <= 64
    )
);

-- The same of a queue's labels: 16 KiB of JSON, names of 1 to 255 characters.
create domain turnabout.labels as text constraint labels_are_a_json_object_of_texts check (
    octet_length(value) <= 16384
    and jsonb_path_match(value::jsonb, 'strict $.type() == "object"
        && !exists($.keyvalue() ? (!(@.key like_regex "^.{1,255}$" flag "s")
            || @.value.type() != "string"))')
);

create domain turnabout.delay as bigint constraint a_delay_is_0_to_366_days
    check (value between 0 and 31622400000);

-- An instant of a message's, in what no function takes for the time.
create domain turnabout.due as bigint constraint an_instant_is_after_1970
    check (value between 0 and 9000000000000000);

create domain turnabout.span as bigint constraint a_span_is_1_ms_to_366_days
    check (value between 1 and 31622400000);

create domain turnabout.lease_time as bigint constraint a_lease_is_1_ms_to_7_days
    check (value between 1 and 604800000);
create domain turnabout.rest_of_lease as bigint constraint a_lease_ends_in_0_ms_to_7_days
    check (value between 0 and 604800000);

-- (None is a look for what time has brought; an epoch of the pipeline's is one receive of more.)
create domain turnabout.batch as int constraint a_batch_is_at_most_1000_messages check (
    value between 0 and 1000 or value > 1000 and has_schema_privilege('turnabout', 'create')
);

create domain turnabout.dedup_key as text constraint a_dedup_key_has_1_to_255_bytes
    check (octet_length(value) between 1 and 255);
create domain turnabout.dedup_mode as text constraint a_dedup_mode_is_known check (
    value in ('window', 'sliding', 'until_started', 'until_finished', 'latest', 'rerun')
);
create domain turnabout.dedup_scope as text constraint a_dedup_scope_is_queue_or_channel
    check (value in ('queue', 'channel'));
create domain turnabout.error_text as text constraint an_error_has_at_most_16_ki_characters
    check (octet_length(value) <= 65536);

-- Saved state, or a result.
create domain turnabout.kept as bytea constraint what_is_kept_has_at_most_1_mib
    check (octet_length(value) <= 1048576);

create domain turnabout.most as int constraint a_limit_is_above_0 check (value > 0);
create domain turnabout.rate as int constraint a_rate_is_1_to_1000000
    check (value between 1 and 1000000);
create domain turnabout.day_part as bigint constraint a_rates_period_is_1_ms_to_a_day
    check (value between 1 and 86400000);
create domain turnabout.interval_us as bigint constraint an_interval_is_above_0 check (value > 0);
create domain turnabout.weight as int constraint a_weight_is_1_to_1000
    check (value between 1 and 1000);
create domain turnabout.note as text constraint a_note_has_a_text_and_a_progress check (
    value is null or octet_length(value) <= 8192
    and coalesce(jsonb_path_match(value::jsonb, '$.text.type() == "string"
        && ($.progress == null || $.progress >= 0 && $.progress <= 1)'), false)
);
create domain turnabout.reason as text constraint a_reason_has_at_most_1024_characters
    check (length(value) <= 1024);

-- A channel's policy, and what a schedule sends, as whoever sets them says in JSON.
create type turnabout.policy as (
    max_concurrency turnabout.most, rate_count turnabout.rate, rate_period_ms turnabout.day_part,
    rate_burst turnabout.rate, rate_interval_us turnabout.interval_us, max_size turnabout.most,
    weight turnabout.weight, paused boolean, paused_until turnabout.due,
    pause_reason turnabout.reason
);

create type turnabout.template as (
    content_type turnabout.content_type, channel turnabout.channel_name, priority smallint,
    delay_ms turnabout.delay, headers turnabout.headers, ttl_ms turnabout.span,
    dedup_key turnabout.dedup_key, dedup_mode turnabout.dedup_mode, dedup_window_ms turnabout.span,
    dedup_scope turnabout.dedup_scope
);

create table turnabout.queue (
    id int generated always as identity primary key,
    name text collate "C" not null unique,
    lease_ms bigint not null check (lease_ms between 1 and 604800000),
    max_attempts int check (max_attempts > 0), max_deliveries int check (max_deliveries > 0),
    backoff_ms bigint not null check (backoff_ms between 0 and 31622400000),
    backoff_max_ms bigint not null check (backoff_max_ms between 0 and 31622400000),
    backoff_jitter_percent int not null check (backoff_jitter_percent between 0 and 100),
    delay_ms bigint not null check (delay_ms between 0 and 31622400000),
    ttl_ms bigint check (ttl_ms between 1 and 31622400000), fifo boolean not null,
    fifo_run int not null check (fifo_run between 1 and 1000),
    on_exhausted text not null default 'dead_letter'
        check (on_exhausted in ('dead_letter', 'drop', 'block', 'dead_letter_channel')),
    paused boolean not null,
    pause_reason text check (length(pause_reason) <= 1024),
    dead_letter text collate "C", max_messages int check (max_messages > 0),
    queue_max_concurrency int check (queue_max_concurrency > 0),
    dedup_mode text not null default 'window' check (
        dedup_mode in ('window', 'sliding', 'until_started', 'until_finished', 'latest', 'rerun')
    ),
    dedup_window_ms bigint not null default 300000
        check (dedup_window_ms between 1 and 31622400000),
    dedup_scope text not null default 'queue' check (dedup_scope in ('queue', 'channel')),
    history_ms bigint not null check (history_ms between 0 and 316224000000),
    history_failed_ms bigint check (history_failed_ms between 0 and 316224000000),
    history_payload boolean not null default false,
    events text not null default 'off' check (events in ('off', 'hints', 'all')),
    queue_rate_count int check (queue_rate_count between 1 and 1000000),
    queue_rate_period_ms bigint check (queue_rate_period_ms between 1 and 86400000),
    queue_rate_burst int check (queue_rate_burst between 1 and 1000000),
    queue_rate_interval_us bigint check (queue_rate_interval_us > 0),
    max_concurrency int check (max_concurrency > 0),
    rate_count int check (rate_count between 1 and 1000000),
    rate_period_ms bigint check (rate_period_ms between 1 and 86400000),
    rate_burst int check (rate_burst between 1 and 1000000),
    rate_interval_us bigint check (rate_interval_us > 0), max_size int check (max_size > 0),
    weight int check (weight between 1 and 1000),
    labels turnabout.labels,  -- as JSON; null: none
    created_at bigint not null, modified_at bigint not null,
    -- receive looks for what is due after this; above 0 only while dead entries are in its way
    timers_since bigint not null default 0,
    -- every channel of this queue has a row in channel, made when it is first needed
    limited boolean not null generated always as (
        fifo or max_concurrency is not null or rate_count is not null
        or max_size is not null or weight is not null
    ) stored,
    -- it has limits of its own, and a row in queue_limit
    queue_limited boolean not null generated always as (
        queue_max_concurrency is not null or queue_rate_count is not null
    ) stored
);

-- How long the queue that keeps its history longest keeps it.
create index queue_longest_history on turnabout.queue (greatest(history_ms, history_failed_ms));

-- Unfinished messages: what each is, written by send and deleted by whoever ends it. Where it
-- stands is in the unlogged tables below: in `ready` or `scheduled`, or in neither, which is
-- leased.
--
-- attempt: how many leases of it have ended; whatever ends one without ending the message raises
-- it, so it fences every receipt. Fixed-width columns first, so that rows carry no padding.
create table turnabout.message (
    id bigint generated always as identity primary key,
    sent_at bigint not null,
    at bigint,          -- due, if not when it was sent
    expires_at bigint,
    leased_at bigint,   -- when the last lease began that has ended
    queue_id int not null, attempt int not null default 0, failures int not null default 0,
    crashes int not null default 0,
    delivered_before int,  -- attempts before it came into the queue or was retried; null: none
    priority smallint not null,
    cancel_requested boolean not null default false,  -- while leased
    channel text collate "C" not null,
    content_type text,  -- null: application/octet-stream
    headers text, payload bytea not null, state bytea,
    errors text,  -- of its attempts, as JSON: [{"attempt", "at", "error"}]
    last_error text, origin text,
    note text  -- of its last worker, as JSON: {"text", "progress"}
) with (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_cost_delay = 0
);

-- What a redrive walks through: messages that died once.
create index message_origin on turnabout.message (queue_id, id) where origin is not null;

-- Where messages stand. These tables hold nothing that is not in `message`, or that a crash of the
-- server may not end: after one they are empty, and sql/time/rebuild.sql fills them again.

-- The line: what may be received, and in FIFO queues what its channel waits for. limited: its
-- channel has a row in `channel`. at: not before that; only in FIFO queues. Rows with negative ids
-- are head marks (sql/place/set_head_marks.sql), with their mark in `at`.
create unlogged table turnabout.ready (
    id bigint not null, at bigint, expires_at bigint, queue_id int not null,
    priority smallint not null, limited boolean not null, channel text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index ready_line on turnabout.ready (queue_id, limited, channel, priority, id)
    with (deduplicate_items = off);  -- no two are alike: a look for such would be in vain
create index ready_expiry on turnabout.ready (queue_id, expires_at) where expires_at is not null;

create sequence turnabout.head_mark_number;

-- Messages that are due later.
create unlogged table turnabout.scheduled (
    id bigint not null, at bigint not null,
    since bigint not null default 0, -- when that was said, or a little before
    expires_at bigint, queue_id int not null, priority smallint not null, limited boolean not null,
    channel text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Behind the clock is nothing, unless that was set back.
create index scheduled_since on turnabout.scheduled (queue_id, since);
create index scheduled_due on turnabout.scheduled (queue_id, at, id);
create index scheduled_limited on turnabout.scheduled (queue_id, channel) where limited;
create index scheduled_expiry on turnabout.scheduled (queue_id, expires_at)
    where expires_at is not null;

-- Leases, one for each receive, whatever it leased. Gone when it runs out or all of it is settled.
-- A message is leased by it while its attempt is one less than the one here.
create sequence turnabout.lease_number;

-- until: the first of its messages' ends. rest_until: the end of those that have none of their own
-- (null: until).
create unlogged table turnabout.lease (
    id bigint primary key, until bigint not null, rest_until bigint, leased_at bigint not null,
    queue_id int not null, ids bigint[] not null, attempts int[] not null,
    keeps boolean not null default false,  -- acked messages go to history
    -- the queue's name, while nothing but that is kept of what is done, and no slot held
    plain_queue text collate "C"
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index lease_due on turnabout.lease (queue_id, until);

-- Messages whose leases end later, or sooner, than those of the rest of their receive.
create unlogged table turnabout.extension (
    id bigint primary key, lease bigint not null, until bigint not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Leased messages of limited channels, and of queues with limits of their own: a slot is a live
-- lease.
create unlogged table turnabout.slot (
    id bigint not null, queue_id int not null, attempt int not null,
    channel text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index slot_channel on turnabout.slot (queue_id, channel, id);

-- Queues with limits of their own. Only receive locks these rows. leased: of its slots, as many as
-- were there up to what is noted below; from which transaction on that is, says folded_to.
create unlogged table turnabout.queue_limit (
    queue_id int primary key, leased int not null default 0, folded_to bigint not null default 0,
    rate_tat_us bigint not null default 0,    -- when the bucket will be full
    rate_depth_us bigint not null default 0   -- of that bucket: its burst times its interval
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- How many slots of theirs were given back; null: count them anew. Only inserted, so nobody waits
-- for anybody; receive folds them into the row.
create unlogged table turnabout.slot_change (
    queue_id int not null, freed int, xid bigint not null default pg_current_xact_id()::text::bigint
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index slot_change_queue on turnabout.slot_change (queue_id, xid);

-- One row while all of these are whole: none after a crash, until they are rebuilt. It knows its
-- own xmin and table: a row that a restored dump has put in has others, and does not count, since
-- receipts that were given out after the dump have to be refused.
create unlogged table turnabout.built (since bigint not null, xid xid, relation oid);
create unique index built_once on turnabout.built ((true));
insert into turnabout.built (since) values ((extract(epoch from clock_timestamp()) * 1000)::bigint);
update turnabout.built b set xid = b.xmin, relation = b.tableoid;

create view turnabout.whole as
select b.since from turnabout.built b where b.xid = b.xmin and b.relation = b.tableoid;

-- Changes of queues that others may not know yet, since their calls began before: what these write
-- is looked over again (sql/time/settle_changes.sql). `queue` is the queue's name, as acks ask for
-- it; `began`: the transactions that have to end first; null: nobody has looked yet. Without a
-- queue: a crash, and transactions that were prepared before it (sql/time/place_prepared.sql).
create table turnabout.recent_change (
    id bigint generated always as identity primary key,
    queue_id int not null, queue text collate "C" not null, began text[],
    xid xid8 not null default pg_current_xact_id()
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index recent_change_queue on turnabout.recent_change (queue);

-- Channels with limits, now or before. Only receive and policy changes lock these rows.
create table turnabout.channel (
    queue_id int not null, name text collate "C" not null, max_concurrency int, rate_count int,
    rate_period_ms bigint, rate_burst int, rate_interval_us bigint, max_size int, weight int,
    paused boolean not null default false, paused_until bigint, pause_reason text,
    own boolean not null default false,  -- has a policy of its own
    awake boolean not null default true,
    wake_at bigint,                      -- asleep until then; null: until something wakes it
    rate_tat_us bigint not null default 0,    -- when the bucket will be full
    rate_depth_us bigint not null default 0,  -- of that bucket: its burst times its interval
    -- of its own, so that nothing but its index leads from one awake channel to the next
    awake_name text collate "C" generated always as (case when awake then name end) stored,
    primary key (queue_id, name)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index channel_awake on turnabout.channel (queue_id, awake_name) where awake_name is not null;
create index channel_timer on turnabout.channel (queue_id, wake_at) where wake_at is not null;

-- Limited channels to look at again. Only inserted and deleted, so nobody waits for anybody (P13).
create table turnabout.wake (
    id bigint generated always as identity primary key,
    queue_id int not null, channel text collate "C" not null,
    policy jsonb  -- null: look again; else the channel's policy as it is from now on
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index wake_queue on turnabout.wake (queue_id, id);
create index wake_policy on turnabout.wake (queue_id, channel) where policy is not null;

-- Dedup entries. Made and changed only under the advisory lock of their key. scope: '' for the
-- queue, '/' and the name for a channel. until_ms is null where the message's life decides.
create table turnabout.dedup (
    queue_id int not null, scope text collate "C" not null, key text collate "C" not null,
    message_id bigint not null, until_ms bigint,
    primary key (queue_id, scope, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index dedup_sweep on turnabout.dedup (queue_id, until_ms, message_id);
