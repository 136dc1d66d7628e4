"""The SQLite file that is moved: read under its write lock, closed, marked as moved."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from turnabout.move._report import Left, Moved, MovedQueue
from turnabout.sqlite._clock import FileClock
from turnabout.sqlite._connection import connect, open_writer
from turnabout.sqlite._descriptor import Descriptor
from turnabout.sqlite._errors import BEING_MOVED, MOVED, our_errors
from turnabout.sqlite._moving import PLACE_BYTES_MAX, sign_of
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import place
from turnabout.sqlite.procedures.inbox import ANY, drain
from turnabout.statements import statements_in
from turnabout.words.errors import UsageError

if sys.platform != "win32":
    import fcntl

SQL = statements_in(Path(__file__).with_name("sqlite.sql"))

HIDDEN = ("queue", "schedule", "redrive", "namespace", "token")
"""Tables that views take the place of: each verb looks at one first. A slice's may not be there."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A move that has closed the file."""

    token: str
    place: str
    state: Literal["closed", "moved"]


class Source:
    """One connection to the file."""

    def __init__(self, url: str) -> None:
        """Open a file that is there; it is migrated, unless a move has closed it.

        Raises: UsageError, Forbidden, WrongVersion: the message says what to do; Busy.
        """
        self._place = place(url)
        if self._place.path is None:
            raise UsageError("a database in memory cannot be moved: name a file, sqlite:///path")
        if not self._place.path.exists():
            raise UsageError(f"there is no file {self._place.path}: nothing to move")
        self._path = self._place.path
        self._connection = connect(self._place)
        self._turnstile = Turnstile(self._place)
        # The target may learn that the file is closed only when no power cut can open it again.
        self._connection.execute("pragma synchronous = full")
        # A table that is renamed leaves the text of views and triggers alone: they are to meet what
        # stands in its place.
        self._connection.execute("pragma legacy_alter_table = on")
        try:
            if self.begun() is None:
                open_writer(self._place).close()
        except BaseException:
            self._connection.close()
            raise

    @property
    def name(self) -> str:
        """The file as a URL, without options."""
        return f"sqlite:///{self._path}"

    def close(self) -> None:
        """Close the connection; the file stays as it is."""
        self._turnstile.close()
        self._connection.close()

    # --- the copy -------------------------------------------------------------------------------

    @contextmanager
    def locked(self, target: str) -> Generator[None]:
        """Hold the write lock, so that nothing changes but what is done inside. What is in the
        inbox is sent. Others can read; who wants to write waits, and is told why.

        Raises: Busy.
        """
        with self._writing(), self._lock_sign(target):
            while self._connection.execute(ANY).fetchone() is not None:
                drain(self._connection, None, FileClock(None).read(self._connection)[0])
            yield

    @contextmanager
    def _lock_sign(self, target: str) -> Generator[None]:
        """Say why the write lock is held, for those who wait for it."""
        path = sign_of(self._path)
        sign = Descriptor(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            if sys.platform != "win32":
                with suppress(OSError):  # no flock there: nobody is told
                    fcntl.flock(sign.number, fcntl.LOCK_EX)
            os.write(sign.number, target.encode()[:PLACE_BYTES_MAX])
            yield
        finally:
            sign.close()
            path.unlink(missing_ok=True)

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Read in one snapshot."""
        with our_errors():
            self._connection.execute("begin")
            try:
                yield
            finally:
                self._connection.execute("rollback")

    def rows(self, table: str) -> Iterator[sqlite3.Row]:
        """Read the rows of a table that move; none if the file does not have it: a slice's."""
        if not self.one("has_table", name=f"turnabout_{table}"):
            return iter(())
        statement = SQL.get(table, f"select * from turnabout_{table}")  # noqa: S608
        now_us = {"now_us": time.time_ns() // 1_000}
        return self._connection.execute(statement, now_us if table == "channel" else {})

    def counts(self, what: str) -> dict[int, tuple[int, ...]]:
        """Numbers by queue."""
        found = self._connection.execute(SQL[f"count_{what}"])
        return {queue: tuple(numbers) for queue, *numbers in found}

    def one(self, step: str, **parameters: Any) -> Any:
        """The one value that a statement of `sqlite.sql` finds."""
        return self._connection.execute(SQL[step], parameters).fetchone()[0]

    def contents(self, target: str) -> Moved:
        """Count what a move moves. Call it inside `locked`, or in a snapshot."""
        counts = [self.counts(what) for what in ("message", "leased", "history", "policies")]
        tables = ("dedup", "schedule", "redrive", "token", "sink_batch")
        dedup, schedules, redrives, tokens, batches = (
            sum(1 for _ in self.rows(table)) for table in tables
        )
        left = Left()
        if self.one("has_table", name="turnabout_stage"):
            left = Left(*self._connection.execute(SQL["left"]).fetchone())
        return Moved(
            source=self.name,
            target=target,
            queues=tuple(
                MovedQueue(row["name"], *(found.get(row["id"], (0,))[0] for found in counts))
                for row in self.rows("queue")
            ),
            dedup_entries=dedup,
            schedules=schedules,
            redrives=redrives,
            tokens=tokens,
            sink_batches=batches,
            left=left,
        )

    # --- closing --------------------------------------------------------------------------------

    def begun(self) -> Begun | None:
        """The move that has closed the file, if any."""
        with our_errors():
            if not self.one("has_table", name="turnabout_move"):
                return None
            return Begun(*self._connection.execute(SQL["the_move"]).fetchone())

    def shut(self, token: str, target: str) -> None:
        """No verb gets in any more: each is to be repeated. Inside `locked`, which commits it."""
        self._connection.execute(SQL["move_table"])
        self._connection.execute(SQL["begin_move"], {"token": token, "place": target})
        self._rename("", "moved_")
        self._put_signs(f"{BEING_MOVED}{target}")

    def reopen(self, token: str) -> None:
        """Take `shut` back, if it stands: the file is as if there had been no move."""
        with self._writing():
            if self._is_closed_by(token):
                self._take_signs_down()
                self._rename("moved_", "")
                self._connection.execute("drop table turnabout_move")

    def finish(self, token: str, target: str) -> None:
        """Close the file: verbs are refused with the queues' new place."""
        with self._writing():
            if self._is_closed_by(token):
                self._take_signs_down()
                self._put_signs(f"{MOVED}{target}")
                self._connection.execute(SQL["end_move"])

    def _is_closed_by(self, token: str) -> bool:
        """Another process may have settled it meanwhile."""
        begun = self.begun()
        return begun is not None and (begun.token, begun.state) == (token, "closed")

    def _put_signs(self, text: str) -> None:
        for table in self._there("turnabout_moved_"):
            self._connection.execute(self.one("close_table", table=table, text=text))
        for (trigger,) in self._connection.execute(SQL["close"], {"text": text}).fetchall():
            self._connection.execute(trigger)

    def _take_signs_down(self) -> None:
        for table in self._there("turnabout_moved_"):
            self._connection.execute(f"drop view turnabout_{table}")
        for kind in ("insert", "update", "delete", "inbox"):
            self._connection.execute(f"drop trigger turnabout_moved_{kind}")

    def _rename(self, old: str, new: str) -> None:
        for table in self._there(f"turnabout_{old}"):
            names = f"turnabout_{old}{table} rename to turnabout_{new}{table}"
            self._connection.execute(f"alter table {names}")

    def _there(self, prefix: str) -> list[str]:
        """Prefix of tables that replace some of `HIDDEN`."""
        return [table for table in HIDDEN if self.one("has_table", name=f"{prefix}{table}")]

    # --- how ------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Generator[None]:
        """One transaction that writes, in its turn among all processes."""
        with our_errors():
            self._turnstile.begin(self._connection)
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                with suppress(sqlite3.OperationalError):  # SQLite has rolled back already
                    self._connection.execute("rollback")
                raise
