"""The `doctor` of PostgreSQL: read only, with the queries of `doctor.sql`.

All counts are of one snapshot, or a send between two of them would look like damage.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from turnabout.postgres.errors import BUSY
from turnabout.postgres.revision import rendered
from turnabout.postgres.url import address, parse
from turnabout.slices import Slice
from turnabout.statements import statements_in
from turnabout.words.findings import (
    LEASE_OVERDUE_MS,
    Finding,
    QueueCounts,
    fail,
    of_counts,
    of_zero,
    ok,
    promises,
    warn,
)

SQL = {
    name: rendered(text)
    for name, text in statements_in(Path(__file__).with_name("doctor.sql")).items()
}
MAINTAIN = rendered("select turnabout.maintain(%s)").encode()
VERSION_MIN: Final = 140_000
CONNECT_SECONDS: Final = 5
NOTIFY_SECONDS = 2.0
TRANSACTION_OLD_SECONDS = 300
SLOT_OLD_TRANSACTIONS: Final = 1_000_000
DURABILITY: Final = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings that decide whether what was accepted survives."""

Db = psycopg.Connection[Any]


def findings(url: str) -> Iterator[Finding]:
    """Collect all findings about the server and the database of the URL."""
    yield ok("psycopg", version=psycopg.__version__, libpq=psycopg.pq.version())
    try:
        first = _connect(url)
    except psycopg.Error as error:
        yield fail("database.unreachable", error=str(error).strip())
        return
    with first:
        server = _guarded("server", lambda: _of_server(first))
        yield from server
        if any(found.name == "primary" for found in server):
            return  # a standby cannot answer the rest
        yield from _guarded("role settings", lambda: of_role(first))
        yield from _guarded("transactions", lambda: of_transactions(first))
        try:
            second = _connect(url)
        except psycopg.Error as error:
            yield warn("connections", error=str(error).strip())
        else:
            with second:
                prepares = parse(url).prepare
                yield from _guarded("pooler", lambda: of_pooler(first, second, prepares=prepares))
                yield from _guarded("LISTEN", lambda: of_listen(first, second))
        yield from _guarded("queues", lambda: _of_database(first))
        yield from _guarded("maintenance", lambda: of_maintenance(first))


def counts_of(url: str, slice_: Slice) -> Iterator[Finding]:
    """The counts of a slice's questions, which are in `doctor.sql` of its part."""
    folder = slice_.folder("postgres")
    if folder is None:
        return
    questions = statements_in(folder / "doctor.sql")

    def run() -> Iterator[Finding]:
        with _connect(url) as db, db.transaction():
            now = _one(db, SQL["now"])
            for name, question in questions.items():
                yield of_zero(name, _one(db, question, now=now), "warn")

    yield from _guarded("database", run)


def _guarded(name: str, run: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of a check; an error of the database is a finding as well."""
    found: list[Finding] = []
    try:
        found.extend(run())
    except psycopg.Error as error:
        found.append(fail(f"{name}.failed", error=str(error).strip()))
    return found


def _connect(url: str) -> Db:
    # No prepared statements: they are what a pooler may break, and are tested on their own.
    return psycopg.connect(
        address(parse(url).conninfo, "turnabout doctor"),
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=CONNECT_SECONDS,
    )


def _of_server(db: Db) -> Iterator[Finding]:
    is_old = int(_setting(db, "server_version_num")) < VERSION_MIN
    version = _setting(db, "server_version")
    yield Finding("PostgreSQL", "fail" if is_old else "ok", {"version": version})
    weak = [name for name in DURABILITY if _setting(db, name) == "off"]
    for name in weak:
        yield warn(name)
    if not weak:
        yield ok("durability")
    if _setting(db, "autovacuum") == "off":
        yield warn("autovacuum")
    if _one(db, "select pg_is_in_recovery()"):
        yield fail("primary")


def of_transactions(db: Db) -> Iterator[Finding]:
    """Find deadlocks, and whatever holds back vacuum, which makes a busy queue slow."""
    found: list[Finding] = []
    row = _row(db, "oldest transaction")
    if row is not None and row[4] > TRANSACTION_OLD_SECONDS:
        pid, user, program, state, seconds = row
        facts = {"pid": pid, "user": user, "program": program, "state": state}
        found.append(warn("transactions", **facts, seconds=seconds))
    row = _row(db, "old slot")
    if row is not None and row[1] > SLOT_OLD_TRANSACTIONS:
        found.append(warn("replication slots", slot=row[0], number=row[1]))
    row = _row(db, "old prepared")
    if row is not None and row[1] > TRANSACTION_OLD_SECONDS:
        found.append(warn("prepared transactions", transaction=row[0], seconds=row[1]))
    yield from found or [ok("transactions")]
    deadlocks = _one(db, SQL["deadlocks"])
    yield Finding("deadlocks", "warn" if deadlocks else "ok", {"number": deadlocks})


def of_role(db: Db) -> Iterator[Finding]:
    """Find settings of the role that only our own connections undo."""
    found = db.execute(SQL["role settings"].encode()).fetchall()
    said = ", ".join(f"{name} = {value}" for name, value in found)
    yield warn("role settings", settings=said) if found else ok("role settings")


def of_pooler(first: Db, second: Db, *, prepares: bool = True) -> Iterator[Finding]:
    """Two clients that share one server process, or one that changes it: a transaction pooler.

    The second one holds its transaction open, so the first is given another process if it can be:
    there a pooler that forgets has nothing of what was prepared before.
    """
    # A name of its own: one that is numbered may be there since another client was.
    name = f"turnabout_doctor_{secrets.token_hex(8)}".encode()
    first.pgconn.prepare(name, b"select pg_backend_pid()")
    before = _process(first, name)
    with second.transaction():
        other = _one(second, "select pg_backend_pid()")
        after = _process(first, name)
    if None in (before, after):
        yield warn("pooler.forgets") if prepares else ok("pooler.forgets")
    elif other == before or after != before:
        yield ok("pooler.transactions")
    else:
        yield ok("pooler")


def _process(db: Db, name: bytes) -> int | None:
    """The server's process, asked by a prepared statement; None where that was forgotten."""
    found = db.pgconn.exec_prepared(name, [])
    if found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"26000":
        return None
    if found.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(found)
    return int(found.get_value(0, 0) or b"")


def of_listen(first: Db, second: Db) -> Iterator[Finding]:
    """LISTEN on one connection, NOTIFY from the other. A pooler loses it without an error."""
    name = f"turnabout_doctor_{secrets.token_hex(4)}"
    first.execute(sql.SQL("listen {}").format(sql.Identifier(name)))
    try:
        second.execute("select pg_notify(%s, '')", (name,))
        notes = list(first.notifies(timeout=NOTIFY_SECONDS, stop_after=1))
    finally:
        first.execute(sql.SQL("unlisten {}").format(sql.Identifier(name)))
    yield ok("LISTEN") if notes else warn("LISTEN")


def _of_database(db: Db) -> Iterator[Finding]:
    if _one(db, "select to_regclass('turnabout.message') is null"):
        return  # the schema's own check says so
    with db.transaction():
        db.execute("set transaction isolation level repeatable read, read only")
        yield from of_queues(db, _one(db, SQL["now"]))


def of_maintenance(db: Db) -> Iterator[Finding]:
    """Each of some queues is maintained, and that is undone."""
    if _one(db, "select to_regclass('turnabout.message') is null"):
        return
    for (queue,) in db.execute(SQL["to maintain"].encode()).fetchall():
        try:
            with db.transaction(force_rollback=True):
                db.execute("set local lock_timeout = '1s'")
                db.execute(MAINTAIN, (queue,))
        except psycopg.Error as error:
            if error.sqlstate not in BUSY:
                yield fail("maintenance.fails", queue=queue, error=error.diag.message_primary)
                return
    yield ok("maintenance")


def of_queues(db: Db, now: int) -> Iterator[Finding]:
    """The findings in the tables."""

    def count(name: str) -> int:
        return _one(db, SQL[name], now=now)

    about = {"now": now, "overdue_ms": LEASE_OVERDUE_MS}
    rows = db.execute(SQL["queues"].encode(), about).fetchall()
    yield from of_counts(
        QueueCounts(name, paused, sent, finished, live, overdue, oldest and now - oldest)
        for name, paused, sent, finished, live, overdue, oldest in rows
    )
    yield of_zero("way out", count("no queue") + count("no channel") + count("asleep"))
    yield from promises(count, SQL)


def _setting(db: Db, name: str) -> str:
    return _one(db, "select current_setting(%(name)s)", name=name)


def _row(db: Db, name: str) -> tuple[Any, ...] | None:
    return db.execute(SQL[name].encode()).fetchone()


def _one(db: Db, statement: str, **facts: Any) -> Any:
    """The first column of the first row."""
    row = db.execute(statement.encode(), facts or None).fetchone()
    assert row is not None
    return row[0]
