"""The SQLite file that is moved: read in snapshots, its changes noted, closed, marked as moved."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from turnabout.move._report import Left
from turnabout.sqlite._clock import FileClock
from turnabout.sqlite._connection import connect, open_writer
from turnabout.sqlite._errors import BEING_MOVED, MOVED, our_errors
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import place
from turnabout.sqlite.procedures.inbox import ANY, drain
from turnabout.statements import statements_in
from turnabout.words.errors import UsageError

SQL = statements_in(Path(__file__).with_name("sqlite.sql"))
Row = sqlite3.Row
State = Literal["copying", "closed", "moved"]

HIDDEN = ("queue", "schedule", "redrive", "namespace", "token")
"""Tables that views take the place of: each verb looks at one first. A slice's may not be there."""
_NAMES = re.compile(rf"turnabout_(?=({'|'.join(HIDDEN)})\b)")

NEEDS = {
    **dict.fromkeys(("namespaces", "tokens"), "token"),
    **dict.fromkeys(("batches", "left"), "sink_batch"),
}
"""Statements about a slice, and the table of it that tells whether the file knows of it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A move that a file takes part in."""

    token: str
    place: str
    state: State
    last_id: int
    seen_id: int


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """What has changed since a number: messages by id, and rows of history that are gone."""

    seq: int
    messages: tuple[int, ...]
    history: tuple[tuple[int, int, int, int], ...]
    """(queue, id, attempt, finished_at)"""


class Source:
    """One connection to the file. Reads are in a `snapshot`, writes are short and take turns."""

    def __init__(self, url: str) -> None:
        """Open a file that is there; it is migrated, unless a move has closed it.

        Raises: UsageError, Forbidden, WrongVersion: the message says what to do; Busy.
        """
        self._place = place(url)
        if self._place.path is None:
            raise UsageError("a database in memory cannot be moved: name a file, sqlite:///path")
        if not self._place.path.exists():
            raise UsageError(f"there is no file {self._place.path}: nothing to move")
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
        return f"sqlite:///{self._place.path}"

    def close(self) -> None:
        """Close the connection; the file stays as it is."""
        self._turnstile.close()
        self._connection.close()

    # --- the move's own notes -------------------------------------------------------------------

    def begun(self) -> Begun | None:
        """The move that was begun here, if any."""
        with our_errors():
            if not self.one("has_move"):
                return None
            return Begun(*self._connection.execute(SQL["the_move"]).fetchone())

    def begin(self, token: str, target: str, seen_id: int) -> None:
        """From now on changes are noted, and new ids are above `seen_id`. A second process
        finds the move of the first.
        """
        with self._writing():
            if self.one("has_move"):
                return
            for step in ("move_table", "change_table", "note_swept", "ids_row"):
                self._connection.execute(SQL[step])
            for kind, row in (("insert", "new"), ("update", "new"), ("delete", "old")):
                self._connection.execute(self.one("note", kind=kind, row=row))
            self._connection.execute(SQL["skip_ids"], {"seen_id": seen_id})
            self._connection.execute(
                SQL["begin_move"], {"token": token, "place": target, "seen_id": seen_id}
            )

    def forget(self, seq: int) -> None:
        """Changes up to this one are carried over."""
        with self._writing():
            self._connection.execute(SQL["forget"], {"seq": seq})

    # --- closing --------------------------------------------------------------------------------

    def shut(self, target: str) -> None:
        """No verb gets in any more: each is to be repeated. What is in the inbox is sent before."""
        with self._writing():
            while self._connection.execute(ANY).fetchone() is not None:
                drain(self._connection, None, FileClock(None).read(self._connection)[0])
            self._rename("", "moved_")
            self._put_signs(f"{BEING_MOVED}{target}")
            self._connection.execute(SQL["set_state"], {"state": "closed"})

    def reopen(self) -> None:
        """Take `shut` back."""
        with self._writing():
            self._reopen()
            self._connection.execute(SQL["set_state"], {"state": "copying"})

    def finish(self, target: str) -> None:
        """From now on verbs are refused with where the queues are."""
        with self._writing():
            self._take_signs_down()
            self._put_signs(f"{MOVED}{target}")
            self._connection.execute(SQL["set_state"], {"state": "moved"})

    def abort(self) -> None:
        """Forget the move: the file is as if there had been none."""
        with self._writing():
            if (begun := self.begun()) is not None:
                if begun.state == "closed":
                    self._reopen()
                for kind in ("insert", "update", "delete", "swept"):
                    self._connection.execute(f"drop trigger turnabout_move_{kind}")
                self._connection.execute("drop table turnabout_move_change")
                self._connection.execute("drop table turnabout_move")

    def _put_signs(self, text: str) -> None:
        for table in self._there("turnabout_moved_"):
            self._connection.execute(self.one("close_table", table=table, text=text))
        for (trigger,) in self.rows("close", text=text):
            self._connection.execute(trigger)

    def _take_signs_down(self) -> None:
        for table in self._there("turnabout_moved_"):
            self._connection.execute(f"drop view turnabout_{table}")
        for kind in ("insert", "update", "delete", "inbox"):
            self._connection.execute(f"drop trigger turnabout_moved_{kind}")

    def _reopen(self) -> None:
        self._take_signs_down()
        self._rename("moved_", "")

    def _rename(self, old: str, new: str) -> None:
        for table in self._there(f"turnabout_{old}"):
            names = f"turnabout_{old}{table} rename to turnabout_{new}{table}"
            self._connection.execute(f"alter table {names}")

    def _there(self, prefix: str) -> list[str]:
        """Those of `HIDDEN` that stand as tables under their name with this in front."""
        return [table for table in HIDDEN if self.one("has_table", name=f"{prefix}{table}")]

    # --- reading --------------------------------------------------------------------------------

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """All reads inside see one moment."""
        with our_errors():
            self._connection.execute("begin")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")

    def rows(self, step: str, **about: Any) -> list[Row]:
        """All rows that a statement of `sqlite.sql` finds; for what is small, or asked in parts."""
        return list(self.each(step, **about))

    def each(self, step: str, **about: Any) -> Iterator[Row]:
        """Rows as they are read; none of a table that the file does not know of."""
        names = [f"turnabout_{moved}{NEEDS.get(step)}" for moved in ("", "moved_")]
        if step in NEEDS and not any(self.one("has_table", name=name) for name in names):
            return iter(())
        statement = SQL[step]
        begun = self.begun() if _NAMES.search(statement) else None
        if begun is not None and begun.state != "copying":
            statement = _NAMES.sub("turnabout_moved_", statement)
        return self._connection.execute(statement, about)

    def counts(self, step: str) -> dict[int, tuple[int, ...]]:
        """Numbers by queue."""
        return {queue: tuple(numbers) for queue, *numbers in self.each(step)}

    def left(self) -> Left:
        """The rows of pipelines that stay behind."""
        return next((Left(*row) for row in self.each("left")), Left())

    def changes(self, after: int, most: int) -> SourceChanges:
        """The changes noted after a number."""
        messages: dict[int, None] = {}
        history: list[tuple[int, int, int, int]] = []
        rows = self.rows("changes", after=after, most=most)
        for _, id_, queue, attempt, finished_at in rows:
            if queue is None:
                messages[id_] = None
            else:
                history.append((queue, id_, attempt, finished_at))
        return SourceChanges(rows[-1]["seq"] if rows else after, tuple(messages), tuple(history))

    def collisions(self, ids: Sequence[int]) -> tuple[int, int | None]:
        """How many of these ids are messages here, and the lowest of them."""
        found = self._connection.execute(SQL["collisions"], {"ids": json.dumps(ids)}).fetchone()
        return found[0], found[1]

    # --- how ------------------------------------------------------------------------------------

    def one(self, step: str, **about: Any) -> Any:
        """The one value that a statement finds."""
        return cast("tuple[Any, ...]", self._connection.execute(SQL[step], about).fetchone())[0]

    @contextmanager
    def _writing(self) -> Generator[None]:
        """One transaction that writes, in its turn among all processes."""
        with our_errors():
            self._turnstile.begin(self._connection)
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise
