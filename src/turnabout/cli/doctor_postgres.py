"""What `doctor` looks at on a PostgreSQL server: read only, with plain queries."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, LiteralString

from turnabout.cli import _show, doctor_promises
from turnabout.cli._check import Check, fail, guarded, ok, warn
from turnabout.cli.doctor_words import check_of
from turnabout.words.extras import install_hint
from turnabout.words.findings import LEASE_OVERDUE_MS, Counts, of_counts, of_zero

if TYPE_CHECKING:
    import psycopg

VERSION_MIN = 140_000
CONNECT_SECONDS = 5
NOTIFY_SECONDS = 2.0
TRANSACTION_OLD_SECONDS = 300

# Settings that decide whether what was accepted survives, and what is lost if not.
DURABILITY = {
    "fsync": "a power cut can damage the whole database",
    "full_page_writes": "a power cut can damage pages",
    "synchronous_commit": "a power cut loses the last messages that were accepted",
}

OLDEST = """
select pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''),
  extract(epoch from clock_timestamp() - xact_start)::float8
from pg_stat_activity
where xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'
order by xact_start limit 1
"""

OLD_SLOT = """
select slot_name, age(coalesce(xmin, catalog_xmin)) from pg_replication_slots
where xmin is not null order by age(xmin) desc limit 1
"""

OLD_PREPARED = """
select gid, extract(epoch from clock_timestamp() - prepared)::float8 from pg_prepared_xacts
order by prepared limit 1
"""

# Since the server's statistics began, of whatever programs.
DEADLOCKS = """
select deadlocks from pg_stat_database where datname = current_database()
"""

NOW = "select (extract(epoch from clock_timestamp()) * 1000)::bigint"

COUNTS = """
select q.name, q.paused,
  coalesce(t.sent, 0)::bigint, coalesce(t.finished, 0)::bigint,
  coalesce(m.live, 0), coalesce(m.overdue, 0), m.oldest
from turnabout.queue q
left join (
  select queue_id, sum(sent) as sent, sum(done + dead + cancelled + expired) as finished
  from turnabout.tally group by queue_id
) t on t.queue_id = q.id
left join (
  select queue_id, count(*) as live,
    count(*) filter (where status = 2 and at < %(overdue)s) as overdue,
    min(sent_at) filter (where status = 0) as oldest
  from turnabout.message where id > 0 group by queue_id
) m on m.queue_id = q.id
order by q.name
"""

NO_QUEUE = """
select count(*) from turnabout.message m
where not exists (select from turnabout.queue q where q.id = m.queue_id)
"""

# A limited message needs a channel row, or a wake row that makes receive write one.
NO_CHANNEL = """
select count(*) from turnabout.message m
where m.limited
  and not exists (
    select from turnabout.channel c where c.queue_id = m.queue_id and c.name = m.channel)
  and not exists (
    select from turnabout.wake w where w.queue_id = m.queue_id and w.channel = m.channel)
"""

# Asleep until something happens, with work, and nothing under way that could wake it.
ASLEEP = """
select count(*) from turnabout.channel c join turnabout.queue q on q.id = c.queue_id
where not c.awake and c.wake_at is null and not c.paused and not q.paused
  and exists (
    select from turnabout.message m where m.queue_id = c.queue_id and m.channel = c.name
      and m.limited and m.status = 0)
  and not exists (
    select from turnabout.message m where m.queue_id = c.queue_id and m.channel = c.name
      and m.limited and m.status = 2)
  and not exists (
    select from turnabout.wake w where w.queue_id = c.queue_id and w.channel = c.name)
"""


def checks(url: str) -> Iterator[Check]:
    """All findings about the server and the database that the URL names."""
    try:
        import psycopg
    except ImportError:
        yield fail("psycopg", "is not installed", install_hint("postgres"))
        return
    yield ok("psycopg", f"{psycopg.__version__}, libpq {psycopg.pq.version()}")
    try:
        first = _connect(url)
    except psycopg.Error as error:
        yield fail(
            "database",
            f"cannot be reached: {str(error).strip()}",
            "is the server up, and are host, port, user and password right? Try: psql URL",
        )
        return
    with first:
        yield from guarded("server", lambda: _of_server(first), psycopg.Error)
        yield from guarded("transactions", lambda: _of_transactions(first), psycopg.Error)
        try:
            second = _connect(url)
        except psycopg.Error as error:
            yield warn(
                "connections",
                f"a second one is refused: {str(error).strip()}",
                "raise max_connections of the server, or the pool size of the pooler",
            )
            second = None
        if second is not None:
            with second:
                yield from guarded("pooler", lambda: _of_pooler(first, second), psycopg.Error)
                yield from guarded("LISTEN", lambda: _of_listen(first, second), psycopg.Error)
        yield from guarded("queues", lambda: _of_queues(first), psycopg.Error)


def _connect(url: str) -> psycopg.Connection[Any]:
    import psycopg

    # No prepared statements: they are what a pooler may break, and are tested on their own.
    return psycopg.connect(
        url,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=CONNECT_SECONDS,
        application_name="turnabout doctor",
    )


def _of_server(db: psycopg.Connection[Any]) -> Iterator[Check]:
    number = int(_setting(db, "server_version_num"))
    version = _setting(db, "server_version")
    if number < VERSION_MIN:
        yield fail("PostgreSQL", f"{version} is too old", "Turnabout needs 14 or later: upgrade it")
    else:
        yield ok("PostgreSQL", version)
    weak = [name for name in DURABILITY if _setting(db, name) == "off"]
    for name in weak:
        yield warn(name, f"is off: {DURABILITY[name]}", f"set {name} = on, unless it is for tests")
    if not weak:
        yield ok("durability", "fsync, full_page_writes and synchronous_commit are on")
    if _setting(db, "autovacuum") == "off":
        yield warn(
            "autovacuum", "is off: dead rows pile up and receive gets slow", "set autovacuum = on"
        )
    if _one(db, "select pg_is_in_recovery()"):
        yield fail("primary", "this is a standby: it takes no sends", "use the primary's address")


def _of_transactions(db: psycopg.Connection[Any]) -> Iterator[Check]:
    """Whatever holds back vacuum makes a busy queue slow."""
    found = False
    row = db.execute(OLDEST).fetchone()
    if row is not None and row[4] > TRANSACTION_OLD_SECONDS:
        found = True
        pid, user, program, state, seconds = row
        yield warn(
            "transactions",
            f"process {pid} ({_show.clean(user)}, {_show.clean(program) or 'no name'}, {state}) "
            f"has had one open for {_show.duration(seconds)}: dead rows cannot be vacuumed",
            f"end it if it is forgotten: select pg_terminate_backend({pid})",
        )
    slot = db.execute(OLD_SLOT).fetchone()
    if slot is not None and slot[1] > 1_000_000:
        found = True
        yield warn(
            "replication slots",
            f"{_show.clean(slot[0])} holds back {slot[1]:,} transactions",
            "start its reader again, or drop the slot: select pg_drop_replication_slot(…)",
        )
    prepared = db.execute(OLD_PREPARED).fetchone()
    if prepared is not None and prepared[1] > TRANSACTION_OLD_SECONDS:
        found = True
        yield warn(
            "prepared transactions",
            f"{_show.clean(prepared[0])} is {_show.duration(prepared[1])} old",
            "commit prepared or rollback prepared it",
        )
    if not found:
        yield ok("transactions", "none has been open for long")
    deadlocks = _one(db, DEADLOCKS)
    if deadlocks:
        yield warn(
            "deadlocks",
            f"PostgreSQL has broken {_show.plural(deadlocks, 'deadlock')} in this database",
            "the server's log tells whose: no verbs of Turnabout can meet so, whatever the order "
            "(P13). If none but `turnabout.` functions stand there, please report it",
        )
    else:
        yield ok("deadlocks", "none was counted in this database (P13)")


def _of_pooler(first: psycopg.Connection[Any], second: psycopg.Connection[Any]) -> Iterator[Check]:
    """Two clients that share one server process, or one that changes it: a transaction pooler.

    The second one holds its transaction open, so the first is given another process if it can be.
    """
    before = _one(first, "select pg_backend_pid()")
    with second.transaction():
        other = _one(second, "select pg_backend_pid()")
        after = _one(first, "select pg_backend_pid()")
        is_pooled = other == before or after != before
        prepared = _prepared_works(first)
    if not is_pooled:
        yield ok("pooler", "none, or one that keeps sessions")
        return
    text = "a transaction pooler is between us and the server"
    if prepared:
        yield ok("pooler", f"{text}; prepared statements work through it")
    else:
        yield warn(
            "pooler",
            f"{text}, and prepared statements do not work through it",
            "nothing has to be done: Turnabout does without. For migrations use a direct address",
        )


def _prepared_works(db: psycopg.Connection[Any]) -> bool:
    import psycopg

    try:
        for _ in range(3):
            db.execute("select 1", prepare=True)
    except psycopg.Error:
        return False
    return True


def _of_listen(first: psycopg.Connection[Any], second: psycopg.Connection[Any]) -> Iterator[Check]:
    """LISTEN on one connection, NOTIFY from the other. A pooler loses it without an error."""
    from psycopg import sql

    name = f"turnabout_doctor_{secrets.token_hex(4)}"
    first.execute(sql.SQL("listen {}").format(sql.Identifier(name)))
    try:
        second.execute("select pg_notify(%s, '')", (name,))
        heard = list(first.notifies(timeout=NOTIFY_SECONDS, stop_after=1))
    finally:
        first.execute(sql.SQL("unlisten {}").format(sql.Identifier(name)))
    if heard:
        yield ok("LISTEN", "a notification arrives")
    else:
        yield warn(
            "LISTEN",
            "no notification arrives: probably a pooler is in between",
            "polling is used, so all works, with more delay. For less, give receivers and "
            "workers a direct address",
        )


def _of_queues(db: psycopg.Connection[Any]) -> Iterator[Check]:
    """One snapshot for all counts, or a send between two of them would look like damage."""
    if _one(db, "select to_regclass('turnabout.message') is null"):
        return  # the schema's own check says so
    with db.transaction():
        db.execute("set transaction isolation level repeatable read, read only")
        now = _one(db, NOW)
        rows = db.execute(COUNTS, {"overdue": now - LEASE_OVERDUE_MS}).fetchall()
        counts = of_counts(
            Counts(
                name,
                paused,
                sent,
                finished,
                live,
                overdue,
                None if oldest is None else now - oldest,
            )
            for name, paused, sent, finished, live, overdue, oldest in rows
        )
        yield from map(check_of, counts)
        strays = sum(_one(db, statement) for statement in (NO_QUEUE, NO_CHANNEL, ASLEEP))
        yield check_of(of_zero("way out", strays))
        found = doctor_promises.answers(lambda statement: _count(db, statement, now))
        yield from map(check_of, found)


def _count(db: psycopg.Connection[Any], statement: str, now: int) -> int:
    row = db.execute(statement.encode(), {"now": now}).fetchone()
    assert row is not None
    return row[0]


def _setting(db: psycopg.Connection[Any], name: str) -> str:
    row = db.execute("select current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return row[0]


def _one(db: psycopg.Connection[Any], statement: LiteralString) -> Any:
    row = db.execute(statement).fetchone()
    assert row is not None
    return row[0]
