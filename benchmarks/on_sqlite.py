"""SQLite: files to measure in, and the barest queue there.

The barest queue is one table with one index, and two transactions: one that leases, one that
deletes. Of the ways to delete and to insert, the quickest that we found is used; it waits for the
write lock with the same short pauses as our library.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import turnabout
from benchmarks.library import PAYLOAD, QUEUE, channel_name

PART = 10_000
RAW = """
create table if not exists raw (
    id integer primary key, leased_until integer not null default 0, payload blob
);
create index if not exists raw_ready on raw (leased_until, id);
"""


def raw_path(url: str) -> str:
    """The barest table has a file of its own, beside ours."""
    return url.removeprefix("sqlite:///").partition("?")[0] + ".raw"


def open_raw(url: str) -> sqlite3.Connection:
    """A connection to the barest table, with the pragmas that our library sets."""
    connection = sqlite3.connect(raw_path(url), timeout=30, isolation_level=None)
    synchronous = "full" if url.endswith("full") else "normal"
    connection.execute("pragma journal_mode = wal")
    connection.execute(f"pragma synchronous = {synchronous}")
    connection.execute("pragma temp_store = memory")
    connection.execute("pragma cache_size = -16000")
    return connection


class Raw:
    """The barest lease, ack and insert."""

    def __init__(self, url: str, channels: int = 1) -> None:
        self._connection = open_raw(url)
        self._connection.execute("pragma busy_timeout = 0")
        self._execute = self._connection.execute

    def take(self, most: int) -> Sequence[int]:
        """Lease some."""
        until = time.time_ns() // 1_000_000 + 30_000
        self._begin()
        rows = self._execute(
            "update raw set leased_until = ? where id in ("  # noqa: S608
            "select id from raw where leased_until = 0 order by leased_until, id"
            f" limit {most}) returning id, payload",
            (until,),
        ).fetchall()
        self._execute("commit")
        return [row[0] for row in rows]

    def done(self, receipts: Sequence[int]) -> None:
        """Delete them."""
        marks = ",".join("?" * len(receipts))
        self._begin()
        self._execute(f"delete from raw where id in ({marks})", receipts)  # noqa: S608
        self._execute("commit")

    def put(self, count: int) -> None:
        """Insert so many, in one statement."""
        values = ",".join(["(?)"] * count)
        self._begin()
        self._execute(f"insert into raw (payload) values {values}", [PAYLOAD] * count)  # noqa: S608
        self._execute("commit")

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def _begin(self) -> None:
        begun = time.monotonic()
        while True:
            try:
                self._execute("begin immediate")
            except sqlite3.OperationalError:
                waited = time.monotonic() - begun
                if waited > 30:
                    raise
                time.sleep(random.uniform(0, 0.001 if waited < 0.05 else 0.0002))
            else:
                return


class SqliteBase:
    """Two files to measure in, ours and the barest one; removed by `close`."""

    def __init__(self, *, durable: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="turnabout-bench-"))
        self._path = self._folder / "ours.db"
        synchronous = "full" if durable else "normal"
        self.url = f"sqlite:///{self._path}?synchronous={synchronous}"
        self._turnabout = turnabout.connect(self.url)
        self._queue = self._turnabout.queue(QUEUE)
        with contextlib.closing(open_raw(self.url)) as connection:
            connection.executescript(RAW)

    def make_queue(self, *, history: bool = False, events: str = "off") -> None:
        """The queue that is measured."""
        self._queue.create(history_seconds=7 * 86_400.0 if history else 0.0, events=events)

    def fill_raw(self, backlog: int) -> None:
        """Have so many rows in the barest table."""
        with contextlib.closing(open_raw(self.url)) as connection:
            connection.execute("begin immediate")
            connection.execute("delete from raw where leased_until <> 0")
            ((there,),) = connection.execute("select count(*) from raw")
            rows = ((PAYLOAD,) for _ in range(backlog - there))
            connection.executemany("insert into raw (payload) values (?)", rows)
            connection.execute("commit")
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def fill(self, backlog: int, channels: int) -> None:
        """Have so many ready messages, the channels in turn; sent by our library."""
        missing = backlog - self.ready()
        names = (channel_name(number, channels) for number in range(max(missing, 0)))
        self._send(list(names))

    def ready(self) -> int:
        """How many are ready."""
        return self._queue.stats().ready

    def fill_flood(self, backlog: int, others: int, share: float) -> None:
        """One channel, `flood`, with that share of the backlog, and some others with the rest."""
        every = max(1, round(1 / (1 - share))) if share < 1 else backlog + 1
        self._send(
            [
                "flood" if i % every else f"tenant-{i // every % max(others, 1)}"
                for i in range(1, backlog + 1)
            ]
        )

    def lease(self, count: int) -> None:
        """Lease so many for an hour."""
        for _ in range(0, count, 1000):
            self._queue.receive(min(1000, count), lease_seconds=3600)
        self.tidy()

    def add_blocked(self, count: int) -> None:
        """So many channels with one message waiting that may not go: one half has a rate of one
        an hour and has used it, the other half one lease at a time and has it. Their rows are
        inserted; all that follows is done by the verbs.
        """
        with contextlib.closing(self._admin()) as connection:
            connection.execute("begin immediate")
            ((queue_id,),) = connection.execute(
                "select id from turnabout_queue where name = ?", (QUEUE,)
            )
            connection.executemany(
                "insert into turnabout_channel (queue_id, name, max_concurrency, rate_count,"
                " rate_period_ms, rate_burst, rate_interval_us) values (?, ?, ?, ?, ?, ?, ?)",
                (
                    (queue_id, f"blocked-{i}", None, 1, 3_600_000, 1, 3_600_000_000)
                    if i % 2
                    else (queue_id, f"blocked-{i}", 1, None, None, None, None)
                    for i in range(1, count + 1)
                ),
            )
            connection.execute("commit")
        self._send([f"blocked-{i // 2}" for i in range(2, 2 * count + 2)])
        while self._queue.receive(1000, lease_seconds=7200):
            pass
        self.tidy()

    def tidy(self) -> None:
        """Move the log into the file, so that it isn't done in the middle."""
        with contextlib.closing(self._admin()) as connection:
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def empty(self) -> None:
        """No messages, and no raw rows."""
        with contextlib.closing(self._admin()) as connection:
            connection.execute("delete from turnabout_message")
        with contextlib.closing(open_raw(self.url)) as connection:
            connection.execute("delete from raw")
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        self.tidy()

    @contextlib.contextmanager
    def old_snapshot(self) -> Iterator[None]:
        """A transaction that sees everything as it is now, held open."""
        with contextlib.closing(self._admin()) as connection:
            connection.execute("begin")
            connection.execute("select count(*) from turnabout_queue").fetchall()
            yield

    def server_ns(self) -> dict[int, int]:
        """There is no server."""
        return {}

    def close(self) -> None:
        """Remove the files."""
        self._turnabout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, names: list[str]) -> None:
        for first in range(0, len(names), PART):
            messages = [turnabout.message(PAYLOAD, channel=n) for n in names[first : first + PART]]
            self._queue.send_many(messages)
        self.tidy()

    def _admin(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        return connection


class SqlitePlace:
    """Files in the temporary folder."""

    name = "SQLite"

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable

    def base(self, *, durable: bool | None = None) -> SqliteBase:
        """New files to measure in; as durable as the place, unless told."""
        return SqliteBase(durable=self.durable if durable is None else durable)

    def close(self) -> None:
        """Nothing is left: bases remove their files."""

    def about(self) -> str:
        """Version and settings, for the line that says what was measured on."""
        synchronous: Any = "full" if self.durable else "normal"
        return f"SQLite {sqlite3.sqlite_version}: write-ahead log, synchronous {synchronous}"
