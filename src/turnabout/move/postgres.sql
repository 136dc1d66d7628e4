-- The database that is moved to: one transaction that brings everything, and the note by which the
-- file learns whether it was committed.

-- name: make_days
-- History in the default partition keeps its day from getting one, so today's comes first. Each
-- call makes one day.
select turnabout.maintain_days(turnabout.clock_ms() + 0 * day, false)
from generate_series(1, 3) day;

-- name: rebuild
-- After a crash of the server, what is there gets its places before more comes.
select turnabout.rebuild() where not exists (select from turnabout.whole);

-- name: be_durable
-- The file learns that its queues are here after a commit here. That commit must not be lost.
select set_config('synchronous_commit', 'on', true)
where current_setting('synchronous_commit') = 'off';

-- name: lock
-- One move at a time. With the lock, a move sees whether the one before was committed.
select pg_try_advisory_xact_lock(hashtextextended('turnabout.move', 0));

-- name: ledger
-- Moves that were committed, until the file knows it.
create table if not exists turnabout.move (token text primary key, report jsonb not null);

-- name: note
-- The queues are here, from this commit on.
insert into turnabout.move (token, report) values (%(token)s, %(report)s::jsonb);

-- name: has_ledger
-- Whether any move has left its note here.
select to_regclass('turnabout.move') is not null;

-- name: report
-- What a move has brought; no row: it was not committed.
select report from turnabout.move where token = %(token)s;

-- name: forget
-- The file knows.
delete from turnabout.move where token = %(token)s;

-- name: is_last
-- Whether there is no other note.
select not exists (select from turnabout.move);

-- name: drop_ledger
drop table turnabout.move;

-- name: xid
-- The transaction that brings everything.
select pg_current_xact_id()::text;

-- name: columns
-- The columns of a table that can be written.
select c.column_name::text from information_schema.columns c
where c.table_schema = 'turnabout' and c.table_name = %(table)s and c.is_generated = 'NEVER';

-- name: skip_ids
-- New ids of a table get above this.
select setval(s.name, %(id)s)
from (select pg_get_serial_sequence('turnabout.' || %(table)s, %(column)s)::regclass as name) s
where coalesce(pg_sequence_last_value(s.name), 0) < %(id)s;

-- name: give_ids
-- New ids of a table.
select nextval(pg_get_serial_sequence('turnabout.' || %(table)s, 'id'))
from generate_series(1, %(count)s::int);

-- name: ids_below
-- Messages that may have the same id as one in the file.
select m.id from turnabout.message m where m.id <= %(last)s order by m.id;

-- name: queues_of_names
-- Queues of these names, and whether anything is or was in them.
select q.name,
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

-- name: part
-- Empty queues that make room keep no other from it.
update turnabout.queue q set dead_letter = null where q.name = any (%(names)s);

-- name: make_room
-- What is sent to them at this moment goes to those that take their names.
select turnabout.queue_delete(name) from unnest(%(names)s::text[]) name;

-- name: redrives_of_ids
-- Redrives of these numbers.
select r.id from turnabout.redrive r where r.id = any (%(ids)s) limit 1;

-- name: places
-- Messages get their places. A due time of theirs counts, however long ago it was: the file says
-- with it what has not become ready.
select turnabout.give_places(q, array_agg(t.id), 0)
from unnest(%(queues)s::int[], %(ids)s::bigint[]) t (queue_id, id)
join turnabout.queue q on q.id = t.queue_id group by q.id;

-- name: put_leases
-- Leases, one for all messages that were leased together. Their receipts in the file have no
-- number, so theirs are below zero (leases_of).
insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
select -nextval('turnabout.lease_number'), o.at, o.leased_at, o.queue_id, o.ids, o.attempts from (
    select t.at, t.leased_at, t.queue_id, array_agg(t.id) as ids, array_agg(t.attempt) as attempts
    from unnest(
        %(queue_id)s::int[], %(id)s::bigint[], %(attempt)s::int[], %(at)s::bigint[],
        %(leased_at)s::bigint[]
    ) t (queue_id, id, attempt, at, leased_at)
    group by t.queue_id, t.at, t.leased_at
) o;

-- name: limit
-- What is leased or due later counts where there are limits. Slots of queues with limits of their
-- own are counted by the next receive.
select turnabout.apply_settings(q) from turnabout.queue q where q.id = any (%(queues)s);

-- name: drop_wakes
-- Every limited channel is awake: the next receive looks at it.
delete from turnabout.wake w where w.queue_id = any (%(queues)s);

-- name: missing_channels
-- Every channel of a limited queue has a row.
insert into turnabout.channel (queue_id, name) select r.queue_id, r.channel from turnabout.ready r
where r.queue_id = any (%(queues)s) and r.limited
union
select s.queue_id, s.channel from turnabout.scheduled s
where s.queue_id = any (%(queues)s) and s.limited on conflict do nothing;

-- name: checksums
-- One number for all that the messages of a queue are. The same arithmetic is in `_rows.py`.
select m.queue_id, count(*), sum(('x' || left(md5(concat_ws('|',
    m.id, m.at, m.attempt, m.priority, m.failures, m.crashes, m.sent_at,
    md5(m.payload), md5(convert_to(m.channel, 'UTF8')))), 12))::bit(48)::bigint)::numeric
from turnabout.message m where m.queue_id = any (%(queues)s) group by m.queue_id;

-- name: count_places
-- Messages by where they stand: once each, if these are as many as there are messages.
select p.queue_id, count(distinct p.id) from (
    select r.queue_id, r.id from turnabout.ready r where r.queue_id = any (%(queues)s)
    union all
    select s.queue_id, s.id from turnabout.scheduled s where s.queue_id = any (%(queues)s)
    union all
    select l.queue_id, l.id from turnabout.leased_messages(%(queues)s) l
) p
group by p.queue_id having count(distinct p.id) = count(*);

-- name: count_leased
-- Leased messages.
select l.queue_id, count(*) from turnabout.leased_messages(%(queues)s) l group by l.queue_id;

-- name: count_history
-- Rows of history, and the sum of their ids.
select h.queue_id, count(*), sum(h.id)::bigint from turnabout.history h
where h.queue_id = any (%(queues)s) group by h.queue_id;
