"""The `doctor` of PostgreSQL: read only, with the queries of `doctor.sql`.

All counts are of one snapshot, or a send between two of them would look like damage.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
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
    Question,
    QueueCounts,
    fail,
    failed,
    judged,
    of_counts,
    of_zero,
    ok,
    promises,
    warn,
    way_out,
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
DURABILITY: Final = {
    "fsync": "can damage the whole database",
    "full_page_writes": "can damage pages",
    "synchronous_commit": "loses the last messages that were accepted",
}
"""Settings that decide whether what was accepted survives; and what a power cut does without."""

DEADLOCKS: Final = Question(
    "none was counted in this database (P13)",
    "PostgreSQL has broken {number:deadlock} in this database",
    "the server's log names the statements: Turnabout's verbs never deadlock with each other (P13)."
    " If only `turnabout.` functions stand there, please report it",
)
POOLER: Final = "a transaction pooler is in front of the server"

Db = psycopg.Connection[Any]


def findings(url: str) -> Iterator[Finding]:
    """Collect all findings about the server and the database of the URL."""
    yield ok(
        "psycopg",
        "{version}, libpq {libpq}",
        version=psycopg.__version__,
        libpq=psycopg.pq.version(),
    )
    try:
        first = _connect(url)
    except psycopg.Error as error:
        yield fail(
            "database",
            "cannot be reached: {error}",
            "is the server up, and are host, port, user and password right? Try: psql URL",
            error=str(error).strip(),
        )
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
            yield warn(
                "connections",
                "a second one is refused: {error}",
                "raise max_connections of the server, or the pool size of the pooler",
                error=str(error).strip(),
            )
        else:
            with second:
                prepares = parse(url).prepare
                yield from _guarded("pooler", lambda: of_pooler(first, second, prepares=prepares))
                yield from _guarded("LISTEN", lambda: of_listen(first, second))
        yield from _guarded("queues", lambda: _of_database(first))
        yield from _guarded("maintenance", lambda: of_maintenance(first))


def counts_of(url: str, slice_: Slice, questions: Mapping[str, Question]) -> Iterator[Finding]:
    """The counts of a slice's questions, which are in `doctor.sql` of its part."""
    folder = slice_.folder("postgres")
    if folder is None:
        return
    statements = statements_in(folder / "doctor.sql")

    def run() -> Iterator[Finding]:
        with _connect(url) as db, db.transaction():
            now = _one(db, SQL["now"])
            yield from promises(
                lambda name: _one(db, statements[name], now=now), statements, questions
            )

    yield from _guarded("database", run)


def _guarded(name: str, run: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of a check; an error of the database is a finding as well."""
    found: list[Finding] = []
    try:
        found.extend(run())
    except psycopg.Error as error:
        found.append(failed(name, error))
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
    yield judged(
        "PostgreSQL",
        "fail",
        "{version}",
        "{version} is too old",
        "Turnabout needs 14 or later: upgrade it",
        holds=int(_setting(db, "server_version_num")) >= VERSION_MIN,
        version=_setting(db, "server_version"),
    )
    weak = [name for name in DURABILITY if _setting(db, name) == "off"]
    for name in weak:
        text = f"is off: a power cut {DURABILITY[name]}"
        yield warn(name, text, f"set {name} = on, unless for tests")
    if not weak:
        yield ok("durability", "fsync, full_page_writes and synchronous_commit are on")
    if _setting(db, "autovacuum") == "off":
        text = "is off: dead rows pile up and receive gets slow"
        yield warn("autovacuum", text, "set autovacuum = on")
    if _one(db, "select pg_is_in_recovery()"):
        yield fail(
            "primary",
            "this is a standby: it takes no sends, and where messages stand cannot be read there",
            "use the primary's address",
        )


def of_transactions(db: Db) -> Iterator[Finding]:
    """Find deadlocks, and whatever holds back vacuum, which makes a busy queue slow."""
    found: list[Finding] = []
    row = _row(db, "oldest transaction")
    if row is not None and row[4] > TRANSACTION_OLD_SECONDS:
        pid, user, program, state, seconds = row
        facts = {"pid": pid, "user": user, "program": program, "state": state}
        found.append(
            warn(
                "transactions",
                "process {pid} ({user:clean}, {program:clean}, {state}) has had one open for"
                " {seconds:seconds}: dead rows cannot be vacuumed",
                "end it if it is forgotten: select pg_terminate_backend({pid})",
                **facts,
                seconds=seconds,
            )
        )
    row = _row(db, "old slot")
    if row is not None and row[1] > SLOT_OLD_TRANSACTIONS:
        found.append(
            warn(
                "replication slots",
                "{slot:clean} holds back {number:,} transactions",
                "start its reader again, or drop the slot: select pg_drop_replication_slot(…)",
                slot=row[0],
                number=row[1],
            )
        )
    row = _row(db, "old prepared")
    if row is not None and row[1] > TRANSACTION_OLD_SECONDS:
        found.append(
            warn(
                "prepared transactions",
                "{transaction:clean} is {seconds:seconds} old",
                "commit prepared or rollback prepared it",
                transaction=row[0],
                seconds=row[1],
            )
        )
    yield from found or [ok("transactions", "none has been open for long")]
    yield of_zero("deadlocks", _one(db, SQL["deadlocks"]), DEADLOCKS)


def of_role(db: Db) -> Iterator[Finding]:
    """Find settings of the role that only our own connections undo."""
    found = db.execute(SQL["role settings"].encode()).fetchall()
    yield judged(
        "role settings",
        "warn",
        "leave our calls alone",
        "{settings}: connections of ours set isolation, timeouts and array_nulls for themselves."
        " Where they cannot, behind a transaction pooler and in transactions of your own, calls"
        " that meet or take longer are Busy, and some values are refused. What only reads, or may"
        " read no views, cannot work",
        "give the role other settings: alter role … set …, or reset …",
        holds=not found,
        settings=", ".join(f"{name} = {value}" for name, value in found),
    )


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
        yield judged(
            "pooler",
            "warn",
            f"{POOLER} that forgets prepared statements; the URL has prepare=off, as it must",
            f"{POOLER}, and forgets prepared statements",
            "add prepare=off to the URL, or set the pooler's max_prepared_statements",
            holds=not prepares,
        )
    elif other == before or after != before:
        yield ok("pooler", f"{POOLER}; prepared statements work through it")
    else:
        yield ok("pooler", "none, or one that keeps sessions")


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
    yield judged(
        "LISTEN",
        "warn",
        "a notification arrives",
        "no notification arrives: probably a pooler is in between",
        "receivers poll instead, with more delay. For less, give receivers and workers a direct"
        " address",
        holds=bool(notes),
    )


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
                yield fail(
                    "maintenance",
                    "{queue:clean}: {error:clean}",
                    "old rows stay, and receives get slower: fix what the database reports",
                    queue=queue,
                    error=error.diag.message_primary,
                )
                return
    yield ok("maintenance", "old rows are removed")


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
    yield way_out(count("no queue") + count("no channel") + count("asleep"))
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
