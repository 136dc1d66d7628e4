"""The PostgreSQL database that is moved to: hidden queues, filled by COPY, then named.

A queue that is being filled is called `<name> (moving)`. No verb can name it, since no queue may be
called so; people who look at all queues see it, with counts that add up.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

from turnabout.move import _rows
from turnabout.move._source import Row, SourceChanges
from turnabout.postgres import install
from turnabout.postgres.errors import translated
from turnabout.postgres.revision import rendered
from turnabout.postgres.url import address, parse
from turnabout.statements import statements_in
from turnabout.words.errors import Busy, Unavailable, UsageError, WrongVersion
from turnabout.words.urls import without_secrets

_WHERE = ("host", "hostaddr", "port", "dbname", "service")

SQL = {
    name: rendered(text)
    for name, text in statements_in(Path(__file__).with_name("postgres.sql")).items()
}
RESERVE = 10_000_000
"""How many ids are left to the file while it is being moved."""
BATCHES = 10_000
HIDDEN = " (moving)"
TRIES, PAUSE_SECONDS = 40, 0.25
"""How long to ask for the outcome of a commit whose answer was lost."""

_TABLES = {
    "message": _rows.MESSAGE,
    "history": _rows.HISTORY,
    "event": _rows.EVENT,
    "channel": _rows.CHANNEL,
    "dedup": _rows.DEDUP,
    "schedule": _rows.SCHEDULE,
    "redrive": _rows.REDRIVE,
    "tally": _rows.TALLY,
    "queue_limit": _rows.QUEUE_LIMIT,
}
_ID, _QUEUE = _rows.MESSAGE.index("id"), _rows.MESSAGE.index("queue_id")
_OF_A_QUEUE = (
    *("message", "ready", "scheduled", "lease", "slot", "queue_limit", "slot_change", "history"),
    *("event", "channel", "dedup", "tally", "wake"),
)


@dataclass(slots=True)
class MoveLedger:
    """How far a move is, as the target knows it."""

    token: str
    state: str
    xid: str
    copied_id: int
    change_seq: int
    event_seq: int
    report: dict[str, Any] | None


class Target:
    """One connection to the database, which holds the lock of its move."""

    def __init__(self, url: str) -> None:
        """Connect. Raises: WrongVersion if it is not migrated; Disconnected, Forbidden."""
        self._url = url
        self.place = _place(url)
        status = install.status(url)
        if status.pending or status.too_new:
            raise WrongVersion(
                f"the database {without_secrets(url)} is not at this library's version: "
                f"run `turnabout migrate up --url '{without_secrets(url)}'`"
            )
        self._connection = self._connect()
        self.queues: dict[int, int] = {}
        """Numbers of queues here, by their numbers in the file."""
        self.names: dict[int, str] = {}
        self.history_seqs: dict[int, int] = {}
        self._token = ""

    def close(self) -> None:
        """Free the lock, and close the connection: the server sees only later that it is closed."""
        with suppress(psycopg.Error):
            self._connection.execute("select pg_advisory_unlock_all()")
        self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Commit what is written inside together."""
        with translated(self._url), self._connection.transaction():
            yield

    # --- the ledger -----------------------------------------------------------------------------

    def take(self, token: str) -> None:
        """Be the only one who carries out this move. Raises: Busy."""
        self._token = token
        if not self._one("lock", token=token):
            raise Busy("another `turnabout move` of this file is running: wait for its end")

    def ledger(self) -> MoveLedger | None:
        """How far the move is; None: nothing is known of it here."""
        with translated(self._url):
            if not self._one("has_ledger"):
                return None
            found = self._run("the_move", token=self._token).fetchone()
            if found is None:
                return None
            for source_id, queue_id, name, seq in self._run("the_queues", token=self._token):
                self.queues[source_id] = queue_id
                self.names[source_id] = name
                self.history_seqs[source_id] = seq
            return MoveLedger(*found)

    def begin(self, source: str, last_given: int) -> MoveLedger:
        """Note a new move. From now on new ids here are above all that the file may give."""
        with self.transaction():
            self._run("ledger")
            self._run("ledger_queues")
            self._run("begin_move", token=self._token, source=source)
            self._run("skip_ids", id=last_given + RESERVE)
        with translated(self._url):
            self._run("make_days")
        ledger = self.ledger()
        assert ledger is not None
        return ledger

    def find_out(self) -> MoveLedger | None:
        """After a failed transaction: how far the move really is; None: that cannot be told.

        A broken connection may leave its commit running. The lock is free when that has ended.
        """
        self._connection.close()
        for _ in range(TRIES):
            try:
                self._connection = self._connect()
                self.take(self._token)
                return self.ledger()
            except Unavailable:
                time.sleep(PAUSE_SECONDS)
        return None

    def forget(self) -> None:
        """Remove the notes of a move that is over."""
        with self.transaction():
            self._run("forget_all_queues", token=self._token)
            self._run("forget_move", token=self._token)
            if self._one("is_last"):
                self._run("drop_ledger")

    def undo(self) -> None:
        """Remove all that a move that is given up has brought."""
        with self.transaction():
            self._drop(list(self.queues.values()))
        self.forget()

    # --- looking --------------------------------------------------------------------------------

    def last_given(self) -> int:
        """The highest id that was ever given out here."""
        with translated(self._url):
            return self._one("last_given")

    def ids_below(self, last: int) -> list[int]:
        """Ids of messages here, up to `last`."""
        with translated(self._url):
            return [id_ for (id_,) in self._run("ids_below", last=last)]

    def refuse_used(self, queues: Iterable[str], schedules: Iterable[str]) -> None:
        """Raises: UsageError if a name is taken here by a queue in use, or by a schedule."""
        with translated(self._url):
            found = self._run("queues_of_names", names=list(queues)).fetchall()
            taken = self._run("schedules_of_names", names=list(schedules)).fetchall()
        if used := [name for _, name, used in found if used]:
            raise UsageError(_in_use("queues", used, self.place))
        if taken:
            raise UsageError(_in_use("schedules", [name for (name,) in taken], self.place))

    def refuse_new(self) -> None:
        """Raises: UsageError if a queue has come here with the name of one that is to come.

        An empty one, too: a sender may have found it before it makes room.
        """
        with translated(self._url):
            found = self._run("queues_of_names", names=list(self.names.values())).fetchall()
        if found:
            raise UsageError(_in_use("queues", [name for _, name, _ in found], self.place))

    # --- filling --------------------------------------------------------------------------------

    def meet(self, rows: Sequence[Row]) -> None:
        """Make a hidden queue for each queue of the file that has none here."""
        for row in rows:
            if row["id"] in self.queues:
                continue
            with self.transaction():
                queue = self._insert_queue(row)
                about = {"token": self._token, "source_id": row["id"], "name": row["name"]}
                self._run("note_queue", queue_id=queue, **about)
            self.queues[row["id"]], self.names[row["id"]] = queue, row["name"]
            self.history_seqs[row["id"]] = 0

    def put(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """COPY rows into a table."""
        columns = _TABLES[table]
        statement = sql.SQL("copy turnabout.{} ({}) from stdin").format(
            sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def put_messages(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """New messages of hidden queues, which count as sent: numbers add up for those who look."""
        self._put_in_place(rows)
        self._count(Counter(row[_QUEUE] for row in rows))

    def _put_in_place(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Messages with their places. Leased ones wait like others until `put_leases`."""
        self.put("message", rows)
        self._run("places", queues=[row[_QUEUE] for row in rows], ids=[row[_ID] for row in rows])

    def _count(self, sent: Counter[int]) -> None:
        self.put("tally", [(queue, n, 0, 0, 0, 0) for queue, n in sent.items() if n])

    def note(self, step: str, **upto: int) -> None:
        """Note how far this move has come."""
        self._run(step, token=self._token, **upto)

    def set_history(self, source_queue: int, seq: int) -> None:
        """History up to this place is here."""
        self.note("set_history", queue=self.queues[source_queue], seq=seq)
        self.history_seqs[source_queue] = seq

    def change(self, changes: SourceChanges, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take over what has changed: these messages as they are now, and rows that are gone."""
        queues = list(self.queues.values())
        sent = Counter(row[_QUEUE] for row in rows)
        sent.subtract(
            queue for (queue,) in self._run("drop_ids", ids=list(changes.messages), queues=queues)
        )
        gone = [row for row in changes.history if row[0] in self.queues]
        if gone:
            of, ids, attempts, times = zip(*gone, strict=True)
            self._run(
                "drop_swept",
                queues=[self.queues[queue] for queue in of],
                ids=list(ids),
                attempts=list(attempts),
                times=list(times),
            )
        self._put_in_place(rows)
        self._count(sent)
        self.note("set_changed", seq=changes.seq)

    # --- the moment -----------------------------------------------------------------------------

    def settle(self, queues: Sequence[Row]) -> None:
        """Settings and counts as they are in the file; queues that are there no more go."""
        there = {row["id"] for row in queues}
        gone = [here for source, here in self.queues.items() if source not in there]
        self._drop(gone)
        self._run("forget_queues", token=self._token, ids=gone)
        for source in [source for source in self.queues if source not in there]:
            del self.queues[source], self.names[source], self.history_seqs[source]
        for row in queues:
            self._update_queue(row)
        ids = list(self.queues.values())
        self._drop_from("tally", ids)
        self.put("tally", [_rows.tally(row, self.queues[row["id"]]) for row in queues])
        self._drop_from("queue_limit", ids)
        self.put("queue_limit", [_rows.queue_limit(row, self.queues[row["id"]]) for row in queues])

    def put_channels(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Limited channels."""
        self._drop_from("channel", list(self.queues.values()))
        self.put("channel", rows)

    def put_leases(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Leased messages wait no more: they are leased, as in the file."""
        while some := list(islice(rows, BATCHES)):
            columns = dict(zip(_rows.LEASE, map(list, zip(*some, strict=True)), strict=True))
            for step in ("leave_ready", "leave_scheduled", "put_leases"):
                self._run(step, **columns)

    def limit(self) -> None:
        """Leases and delayed messages count in limited channels, which all have a row. What is
        ready there moves over when it is received.
        """
        ids = list(self.queues.values())
        self._run("limit", ids=ids)
        self._run("count_slots", ids=ids)
        self._drop_from("wake", ids)
        self._run("missing_channels", ids=ids)

    def put_redrives(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Redrives keep their numbers, unless one of them is taken here: then all get new ones."""
        if not rows:
            return
        numbers = [row[0] for row in rows]
        if self._run("redrives_of_ids", ids=numbers).fetchone() is None:
            self.put("redrive", rows)
            self._run("skip_redrives", id=max(numbers))
            return
        columns = _rows.REDRIVE[1:]
        statement = _insert("redrive", columns)
        for row in rows:
            self._connection.execute(statement, row[1:])

    def add(self, step: str, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        """Namespaces, or tokens. One that is here already stays as it is: revoked, perhaps."""
        for row in rows:
            self._run(step, **dict(zip(columns, _rows.row_of(columns, row), strict=True)))

    def put_batches(self, rows: Iterable[Row]) -> None:
        """Notes of batches that were published. Those that are here stay as they are."""
        while some := list(islice(rows, BATCHES)):
            columns = {name: [row[name] for row in some] for name in _rows.SINK_BATCH}
            self._run("add_batches", **columns)

    def skip_events(self, seq: int) -> None:
        """New events get numbers above this."""
        if seq:
            self._run("skip_events", id=seq)

    def reveal(self, report: dict[str, Any]) -> None:
        """Give the queues their names. Raises: UsageError if one is taken."""
        self.refuse_new()
        self._run("rename", token=self._token)
        self._run("finish", token=self._token, report=json.dumps(report))

    def counts(self, what: str) -> dict[int, tuple[int, ...]]:
        """The numbers that a statement finds, by queue of the file."""
        source = {here: there for there, here in self.queues.items()}
        found = self._run(what, queues=list(source))
        return {source[queue]: tuple(int(n) for n in numbers) for queue, *numbers in found}

    # --- how ------------------------------------------------------------------------------------

    def _connect(self) -> psycopg.Connection[Any]:
        with translated(self._url):
            connection = psycopg.connect(
                address(parse(self._url).conninfo, "turnabout move"), autocommit=True
            )
            try:
                connection.execute(SQL["be_durable"].encode())
                connection.execute(SQL["rebuild"].encode())
            except BaseException:
                connection.close()
                raise
            return connection

    def _insert_queue(self, row: Row) -> int:
        """A hidden queue, in the place of an empty one of its name."""
        found = self._run("queues_of_names", names=[row["name"]]).fetchall()
        if used := [name for _, name, used in found if used]:
            raise UsageError(_in_use("queues", used, self.place))
        self._drop([queue for queue, _, _ in found])
        hidden = row["name"] + HIDDEN
        if self._run("queues_of_names", names=[hidden]).fetchone() is not None:
            raise UsageError(
                f"another move is bringing a queue {row['name']!r} to {self.place}: "
                "let it end, or give it up (`turnabout move … --abort`)"
            )
        statement = _insert("queue", ("name", *_rows.QUEUE))
        settings = _rows.row_of(
            _rows.QUEUE, row, dead_letter=None
        )  # nothing dies in it, and no name is held by it
        made = self._connection.execute(statement, (hidden, *settings)).fetchone()
        assert made is not None
        return made[0]

    def _update_queue(self, row: Row) -> None:
        statement = sql.SQL("update turnabout.queue set ({}) = row ({}) where id = %s").format(
            sql.SQL(", ").join(map(sql.Identifier, _rows.QUEUE)),
            sql.SQL(", ").join(sql.Placeholder() * len(_rows.QUEUE)),
        )
        settings = _rows.row_of(_rows.QUEUE, row, dead_letter=row["dead_letter_name"])
        self._connection.execute(statement, (*settings, self.queues[row["id"]]))

    def _drop(self, ids: list[int]) -> None:
        if ids:
            for table in _OF_A_QUEUE:
                self._drop_from(table, ids)
            self._run("drop_queues", ids=ids)

    def _drop_from(self, table: str, ids: list[int]) -> None:
        """What these queues have in a table."""
        statement = sql.SQL("delete from turnabout.{} where queue_id = any (%s)")
        self._connection.execute(statement.format(sql.Identifier(table)), (ids,))

    def _run(self, step: str, **about: Any) -> psycopg.Cursor[Any]:
        return self._connection.execute(SQL[step].encode(), about)

    def _one(self, step: str, **about: Any) -> Any:
        row = self._run(step, **about).fetchone()
        assert row is not None
        return row[0]


def _in_use(what: Literal["queues", "schedules"], names: Sequence[str], place: str) -> str:
    """The complaint about queues or schedules that the target has already."""
    return (
        f"{place} has {what} of these names already: {', '.join(names)}. Delete them there "
        f"(`turnabout {what[:-1]} delete`), or move to another database; senders and workers "
        "change to it when the move is done"
    )


def _insert(table: str, columns: Sequence[str]) -> sql.Composed:
    return sql.SQL("insert into turnabout.{} ({}) values ({}) returning *").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(sql.Placeholder() * len(columns)),
    )


def _place(url: str) -> str:
    """The URL without password, and of its options only those that say where the database is: fit
    to be shown by a file for ever, and to be connected to.
    """
    bare, _, options = without_secrets(url).partition("?")
    where = "&".join(o for o in options.split("&") if o.partition("=")[0] in _WHERE)
    return f"{bare}?{where}" if where else bare
