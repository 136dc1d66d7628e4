-- The database that is moved to: the ledger, hidden queues that are filled, and the moment at which
-- they get their names.

-- name: be_durable
-- The file learns that its queues are here after a commit here. That commit must not be lost.
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') = 'off';

-- name: make_days
-- History in the default partition keeps its day from getting one, so today's comes first. Each
-- call makes one day.
select turnabout.maintain_days(turnabout.clock_ms() + 0 * day, false)
from generate_series(1, 3) day;

-- name: lock
-- One mover at a time for each move, as long as its connection lives.
select pg_try_advisory_lock(hashtextextended('turnabout.move ' || %(token)s, 0));

-- name: ledger
-- A move, and how far it is. Written in the same transaction as what it tells of.
create table if not exists turnabout.move (
    token text primary key,
    source text not null,
    state text not null default 'copying',
    xid xid8 not null default pg_current_xact_id(),
    copied_id bigint not null default 0,
    change_seq bigint not null default 0,
    event_seq bigint not null default 0,
    messages bigint not null default 0,
    report jsonb
);

-- name: ledger_queues
-- The queues of a move, by their number in the file.
create table if not exists turnabout.move_queue (
    token text not null,
    source_id bigint not null,
    queue_id int not null,
    name text not null,
    history_seq bigint not null default 0,
    primary key (token, source_id)
);

-- name: rebuild
-- After a crash of the server: messages that were copied get their places again.
select turnabout.rebuild() where not exists (select from turnabout.whole);

-- name: has_ledger
-- Whether any move has left its notes here.
select to_regclass('turnabout.move') is not null;

-- name: the_move
-- A move.
select token, state, xid::text, copied_id, change_seq, event_seq, report
from turnabout.move where token = %(token)s;

-- name: the_queues
-- Its queues.
select source_id, queue_id, name, history_seq from turnabout.move_queue where token = %(token)s;

-- name: begin_move
-- A new move.
insert into turnabout.move (token, source) values (%(token)s, %(source)s);

-- name: last_given
-- The highest id that was ever given out here; 0: none.
select coalesce(pg_sequence_last_value('turnabout.message_id_seq'::regclass), 0);

-- name: skip_ids
-- New messages here get ids above all that the file may still give out.
select setval('turnabout.message_id_seq', greatest(s.last_value, %(id)s))
from turnabout.message_id_seq s;

-- name: ids_below
-- Messages that may have the same id as one in the file.
select m.id from turnabout.message m where m.id <= %(last)s order by m.id;

-- name: queues_of_names
-- Queues of these names, and whether anything is or was in them.
select q.id, q.name,
    exists (select from turnabout.message m where m.queue_id = q.id)
    or exists (select from turnabout.history h where h.queue_id = q.id)
    or exists (
        select from turnabout.tally t
        where t.queue_id = q.id
            and (t.sent > 0 or t.done > 0 or t.dead > 0 or t.cancelled > 0 or t.expired > 0)
    ) as used
from turnabout.queue q where q.name = any (%(names)s) order by q.name;

-- name: schedules_of_names
-- Schedules of these names.
select s.name from turnabout.schedule s where s.name = any (%(names)s) order by s.name;

-- name: drop_queues
-- Queues that nothing is in.
delete from turnabout.queue q where q.id = any (%(ids)s);

-- name: note_queue
-- A queue of the file has one here.
insert into turnabout.move_queue (token, source_id, queue_id, name)
values (%(token)s, %(source_id)s, %(queue_id)s, %(name)s);

-- name: forget_queues
-- These are in the file no more.
delete from turnabout.move_queue where token = %(token)s and queue_id = any (%(ids)s);

-- name: drop_ids
-- Messages that have changed in the file: away with what they were. By queue, since an id that has
-- left this move is nobody's.
with gone as (
    delete from turnabout.message m where m.id = any (%(ids)s) and m.queue_id = any (%(queues)s)
    returning m.*
),
gone_ready as (
    delete from turnabout.ready r using gone g
    where r.queue_id = g.queue_id and r.limited = any ('{false,true}') and r.channel = g.channel
        and r.priority = g.priority and r.id = g.id
),
gone_scheduled as (
    delete from turnabout.scheduled s using gone g
    where s.queue_id = g.queue_id and s.at = g.at and s.id = g.id
)
select g.queue_id from gone g;

-- name: drop_swept
-- Rows of history that were removed from the file.
delete from turnabout.history h
using unnest(%(queues)s::int[], %(ids)s::bigint[], %(attempts)s::int[], %(times)s::bigint[])
    t (queue_id, id, attempt, finished_at)
where h.id = t.id and h.queue_id = t.queue_id and h.attempt = t.attempt
    and h.finished_at = t.finished_at;

-- name: set_copied
-- How far the messages are, by id.
update turnabout.move set copied_id = %(id)s where token = %(token)s;

-- name: set_changed
-- How far the changes are.
update turnabout.move set change_seq = %(seq)s where token = %(token)s;

-- name: set_history
-- How far the history of a queue is.
update turnabout.move_queue set history_seq = %(seq)s
where token = %(token)s and queue_id = %(queue)s;

-- name: set_events
-- How far the events are.
update turnabout.move set event_seq = %(seq)s where token = %(token)s;

-- name: finish
-- The queues have their names: from this commit on the move has happened.
update turnabout.move set state = 'done', report = %(report)s::jsonb where token = %(token)s;

-- name: rename
-- A queue gets its name.
update turnabout.queue q set name = m.name
from turnabout.move_queue m where m.token = %(token)s and m.queue_id = q.id;

-- name: places
-- Messages get their places. A due time of theirs counts, however long ago it was: the file says
-- with it what has not become ready.
select turnabout.give_places(q, array_agg(t.id), 0)
from unnest(%(queues)s::int[], %(ids)s::bigint[]) t (queue_id, id)
join turnabout.queue q on q.id = t.queue_id
group by q.id;

-- name: leave_ready
-- Leased messages leave the line.
delete from turnabout.ready r
using unnest(%(queue_id)s::int[], %(id)s::bigint[]) t (queue_id, id)
where r.queue_id = t.queue_id and r.id = t.id;

-- name: leave_scheduled
-- A crash of the server while a message was not leased yet may have put it here.
delete from turnabout.scheduled s
using unnest(%(queue_id)s::int[], %(id)s::bigint[]) t (queue_id, id)
where s.queue_id = t.queue_id and s.id = t.id;

-- name: put_leases
-- Leases, one for all messages that were leased together. Their receipts in the file have no
-- number, so theirs are below zero (leases_of).
insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
select -nextval('turnabout.lease_number'), o.at, o.leased_at, o.queue_id, o.ids, o.attempts
from (
    select t.at, t.leased_at, t.queue_id, array_agg(t.id) as ids, array_agg(t.attempt) as attempts
    from unnest(
        %(queue_id)s::int[], %(id)s::bigint[], %(attempt)s::int[], %(at)s::bigint[],
        %(leased_at)s::bigint[]
    ) t (queue_id, id, attempt, at, leased_at)
    group by t.queue_id, t.at, t.leased_at
) o;

-- name: count_slots
-- Slots of queues with limits of their own are counted by the next receive.
insert into turnabout.slot_change (queue_id)
select q.id from turnabout.queue q where q.id = any (%(ids)s) and q.queue_limited;

-- name: limit
-- What is leased or due later counts where there are limits.
select turnabout.apply_settings(q) from turnabout.queue q where q.id = any (%(ids)s);

-- name: missing_channels
-- Every limited channel has a row, which is awake: the next receive looks at it.
insert into turnabout.channel (queue_id, name)
select r.queue_id, r.channel from turnabout.ready r
where r.queue_id = any (%(ids)s) and r.limited
union
select s.queue_id, s.channel from turnabout.scheduled s
where s.queue_id = any (%(ids)s) and s.limited
on conflict do nothing;

-- name: message_counts
-- By queue: how many messages, and the sum of their ids.
select m.queue_id, count(*), sum(m.id)::bigint from turnabout.message m
where m.queue_id = any (%(queues)s) group by m.queue_id;

-- name: history_counts
-- The same for the history.
select h.queue_id, count(*), sum(h.id)::bigint from turnabout.history h
where h.queue_id = any (%(queues)s) group by h.queue_id;

-- name: leased_counts
-- Leased messages.
select l.queue_id, count(*) from turnabout.leased_messages(%(queues)s) l group by l.queue_id;

-- name: place_counts
-- Messages by where they stand: once each, if these are as many as there are messages.
select p.queue_id, count(distinct p.id)
from (
    select r.queue_id, r.id from turnabout.ready r where r.queue_id = any (%(queues)s)
    union all
    select s.queue_id, s.id from turnabout.scheduled s where s.queue_id = any (%(queues)s)
    union all
    select l.queue_id, l.id from turnabout.leased_messages(%(queues)s) l
) p
group by p.queue_id having count(distinct p.id) = count(*);

-- name: checksums
-- One number for all that the messages of a queue are. The same arithmetic is in `_rows.py`.
select m.queue_id, count(*), sum(('x' || left(md5(concat_ws('|',
    m.id, m.at, m.attempt, m.priority, m.failures, m.crashes, m.sent_at,
    md5(m.payload), md5(convert_to(m.channel, 'UTF8')))), 12))::bit(48)::bigint)::numeric
from turnabout.message m
where m.queue_id = any (%(queues)s) group by m.queue_id;

-- name: redrives_of_ids
-- Redrives of these numbers.
select r.id from turnabout.redrive r where r.id = any (%(ids)s) limit 1;

-- name: skip_redrives
-- New redrives get numbers above these.
select setval('turnabout.redrive_id_seq', greatest(s.last_value, %(id)s))
from turnabout.redrive_id_seq s;

-- name: skip_events
-- New events get numbers above these.
select setval('turnabout.event_seq_seq', greatest(s.last_value, %(id)s))
from turnabout.event_seq_seq s;

-- name: add_namespace
-- A namespace; one that is here stays as it is here.
insert into turnabout.namespace (
    name, max_messages, max_bytes, requests_per_second, max_queues, max_policies, max_schedules,
    max_history_bytes, max_polls, weight, created_at
)
values (
    %(name)s, %(max_messages)s, %(max_bytes)s, %(requests_per_second)s, %(max_queues)s,
    %(max_policies)s, %(max_schedules)s, %(max_history_bytes)s, %(max_polls)s, %(weight)s,
    %(created_at)s
)
on conflict do nothing;

-- name: add_token
-- A token; one that is here stays as it is here.
insert into turnabout.token (
    id, digest, namespace, label, scopes, created_at, expires_at, revoked_at
)
values (
    %(id)s, %(digest)s, %(namespace)s, %(label)s, %(scopes)s, %(created_at)s, %(expires_at)s,
    %(revoked_at)s
)
on conflict do nothing;

-- name: add_batches
-- Batches that were published; those that are here stay as they are.
insert into turnabout.sink_batch (sink, batch, messages, published_at)
select * from unnest(
    %(sink)s::text[], %(batch)s::bigint[], %(messages)s::bigint[], %(published_at)s::bigint[]
)
on conflict do nothing;

-- name: forget_move
-- The file knows that the move has happened, or it was given up: nothing is to be kept.
delete from turnabout.move where token = %(token)s;

-- name: forget_all_queues
delete from turnabout.move_queue where token = %(token)s;

-- name: is_last
-- Whether there is no other move.
select not exists (select from turnabout.move);

-- name: drop_ledger
drop table turnabout.move, turnabout.move_queue;
