-- Subscriptions, staged messages and the log, for pipelines. What they mean:
-- docs/design/pipeline.md.

-- The log is the history in the order of commits.
create index history_log on turnabout.history (xid, id);

-- Who leases by the batch. generation: of the reader that has it; from a sequence, so that one that
-- was forgotten and made again knows no older readers. turn: how often it has leased.
create sequence turnabout.generation;

create table turnabout.subscription (
    name text collate "C" primary key, owner text not null, generation bigint not null,
    epoch bigint not null default 0, acked bigint not null default 0,
    max_messages int,  -- while a failing epoch is isolated
    suspects jsonb not null default '{}',  -- messages set aside: what `passed` was then
    passed bigint not null default 0,  -- epochs acknowledged that had never failed
    proven bigint not null default 0,  -- what `passed` was when it last told nothing, or was used
    failures int not null default 0,  -- messages that failed alone; halved as epochs get through
    resume_at bigint not null default 0,  -- no new epoch before it
    turn bigint not null default 0, queues text[] not null default '{}', opened_at bigint not null,
    seen_at bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Where the round robin of each queue goes on.
create table turnabout.subscription_turn (
    subscription text collate "C" not null, queue text collate "C" not null, channel text not null,
    served int not null,
    primary key (subscription, queue)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Epochs that are leased and not acknowledged. until: what their leases were last renewed to.
create table turnabout.epoch (
    subscription text collate "C" not null, epoch bigint not null, plans int not null default 0,
    leased_at bigint not null, until bigint not null,
    primary key (subscription, epoch)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Their messages: receipts of one queue, in order. Each part is a lease of its own, `lease`.
create table turnabout.epoch_part (
    subscription text collate "C" not null, epoch bigint not null, part int not null,
    queue_id int not null, queue text collate "C" not null,
    lease bigint not null default nextval('turnabout.lease_number'),
    ids bigint[] not null, attempts int[] not null,
    primary key (subscription, epoch, part)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

alter table turnabout.epoch_part
    alter column ids set storage external, alter column attempts set storage external;

-- Messages put aside until their batch is published: some of a queue in a row, as send takes them.
-- A crash of the server may empty it: then the count is wrong, and the batch is repeated.
create unlogged table turnabout.stage (
    attempt text collate "C" not null,
    nr bigint generated always as identity,
    staged_at bigint not null, queue text collate "C" not null, messages int not null,
    payloads turnabout.payload[] not null, content_type turnabout.content_type not null,
    content_types turnabout.content_type[], channels turnabout.channel_name[],
    priorities smallint[], delays turnabout.delay[], headers turnabout.headers[],
    ttls turnabout.span[], dedup_keys turnabout.dedup_key[], dedup_modes turnabout.dedup_mode[],
    dedup_windows turnabout.span[], dedup_scopes turnabout.dedup_scope[],
    primary key (attempt, nr)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

alter table turnabout.stage
    alter column payloads set storage external, alter column channels set storage external,
    alter column headers set storage external, alter column dedup_keys set storage external;

create index stage_old on turnabout.stage using brin (staged_at) with (pages_per_range = 8);

-- Batches that were published.
create table turnabout.sink_batch (
    sink text collate "C" not null, batch bigint not null, messages bigint not null,
    published_at bigint not null,
    primary key (sink, batch)
);

-- How far archives have come.
create table turnabout.watermark (
    archive text collate "C" primary key, place text not null, xid xid8 not null,
    id bigint not null, messages bigint not null, set_at bigint not null
) with (fillfactor = 50);

-- For bulk reading. They show all namespaces; instants are milliseconds.

create view turnabout.log_rows as
select left(q.name, greatest(position('/' in q.name), 1) - 1) as namespace,
    substr(q.name, position('/' in q.name) + 1) as queue,
    h.channel::text as channel,
    h.id as message_id,
    case h.outcome when 1 then 'done' when 2 then 'dead' when 3 then 'cancelled' else 'expired' end
        as outcome,
    h.attempt,
    h.failures,
    h.crashes,
    h.sent_at,
    h.leased_at,
    h.finished_at,
    h.error,
    h.result,
    h.result_type,
    h.payload as value,
    h.content_type,
    h.headers,
    h.xid,
    h.queue_id,
    h.ctid as tid
from turnabout.history h left join turnabout.queue q on q.id = h.queue_id;

-- For who reads many rows of the log: their names take a third of the time.
create view turnabout.queue_names as
select q.id as queue_id,
    left(q.name, greatest(position('/' in q.name), 1) - 1) as namespace,
    substr(q.name, position('/' in q.name) + 1) as queue
from turnabout.queue q;

-- The files that hold the log's rows: a row stays where it is as long as its file has that number.
create view turnabout.log_files as
select t.relid::oid::bigint as table_id,
    pg_relation_filenode(t.relid)::bigint as number,
    pg_relation_size(t.relid) / current_setting('block_size')::int as blocks
from pg_partition_tree('turnabout.history') t where t.isleaf;

-- A message is looked up by its key, one after another (`offset 0` keeps it so): that takes as long
-- as the part is, whatever else lies in the table. They come in the order of `place`.
create view turnabout.epoch_rows as
select p.subscription::text as subscription,
    p.epoch,
    p.part,
    t.place,
    left(p.queue, greatest(position('/' in p.queue), 1) - 1) as namespace,
    substr(p.queue, position('/' in p.queue) + 1) as queue,
    m.channel,
    m.id as message_id,
    m.attempt,
    m.priority,
    m.failures,
    m.crashes,
    m.sent_at,
    e.leased_at,
    e.until as lease_until,
    m.value,
    m.content_type,
    m.headers,
    m.state
from turnabout.epoch e
join turnabout.epoch_part p on p.subscription = e.subscription and p.epoch = e.epoch
cross join lateral unnest(p.ids, p.attempts) with ordinality t (id, attempt, place)
cross join lateral (
    select r.channel::text as channel, r.id, t.attempt, r.priority, r.failures, r.crashes,
        r.sent_at, r.payload as value,
        coalesce(r.content_type, 'application/octet-stream') as content_type, r.headers, r.state
    from turnabout.message r
    where r.id = t.id and r.attempt = t.attempt - 1 and r.queue_id + 0 = p.queue_id offset 0
) m;

create view turnabout.dead_rows as
select left(q.name, greatest(position('/' in q.name), 1) - 1) as namespace,
    substr(q.name, position('/' in q.name) + 1) as queue,
    m.channel::text as channel,
    m.id as message_id,
    o.story ->> 'queue' as source_queue,
    o.story ->> 'reason' as reason,
    (o.story ->> 'died_at')::bigint as died_at,
    coalesce((o.story ->> 'failures')::int, m.failures) as failures,
    coalesce((o.story ->> 'crashes')::int, m.crashes) as crashes,
    coalesce((o.story ->> 'redrives')::int, 0) as redrives,
    o.story ->> 'first_error' as first_error,
    o.story ->> 'last_error' as last_error,
    m.sent_at,
    m.payload as value,
    coalesce(m.content_type, 'application/octet-stream') as content_type,
    m.headers
from turnabout.queue q join turnabout.message m on m.queue_id = q.id
cross join lateral (select m.origin::jsonb as story offset 0) o
where exists (select from turnabout.queue s where s.dead_letter = q.name);
