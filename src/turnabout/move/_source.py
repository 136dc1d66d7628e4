"""The SQLite file that is moved: read in snapshots, its changes noted, closed, marked as moved."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from turnabout.move._report import Left
from turnabout.sqlite._connection import connect, open_writer
from turnabout.sqlite._errors import BEING_MOVED, MOVED, our_errors
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import place
from turnabout.statements import statements_in
from turnabout.words.errors import UsageError

SQL = statements_in(Path(__file__).with_name("sqlite.sql"))
Row = sqlite3.Row
State = Literal["copying", "closed", "moved"]

HIDDEN = ("queue", "schedule", "redrive", "namespace", "token")
"""Tables that a view takes the place of: every verb looks at one of them first. Those of a slice
may not be there.
"""


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
            if not self._one("has_move"):
                return None
            return Begun(*self._connection.execute(SQL["the_move"]).fetchone())

    def begin(self, token: str, target: str, seen_id: int) -> None:
        """From now on changes are noted, and new ids are above `seen_id`. A second process
        finds the move of the first.
        """
        with self._writing():
            if self._one("has_move"):
                return
            for step in (
                *("move_table", "change_table", "note_insert", "note_update"),
                *("note_delete", "note_swept", "ids_row"),
            ):
                self._connection.execute(SQL[step])
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
        """No verb gets in any more, by whichever connection: each is to be repeated."""
        with self._writing():
            for table in self._there("turnabout_"):
                self._connection.execute(
                    f"alter table turnabout_{table} rename to turnabout_moved_{table}"
                )
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
            if self._one("has_move"):
                if Begun(*self._connection.execute(SQL["the_move"]).fetchone()).state == "closed":
                    self._reopen()
                for kind in ("insert", "update", "delete", "swept"):
                    self._connection.execute(f"drop trigger turnabout_move_{kind}")
                self._connection.execute("drop table turnabout_move_change")
                self._connection.execute("drop table turnabout_move")

    def _put_signs(self, text: str) -> None:
        hidden = self._there("turnabout_moved_")
        for step in (*(f"close_{t}" for t in hidden), "close_insert", "close_update"):
            self._connection.execute(self._one(step, text=text))
        self._connection.execute(self._one("close_delete", text=text))

    def _take_signs_down(self) -> None:
        for table in self._there("turnabout_moved_"):
            self._connection.execute(f"drop view turnabout_{table}")
        for kind in ("insert", "update", "delete"):
            self._connection.execute(f"drop trigger turnabout_moved_{kind}")

    def _reopen(self) -> None:
        self._take_signs_down()
        for table in self._there("turnabout_moved_"):
            self._connection.execute(
                f"alter table turnabout_moved_{table} rename to turnabout_{table}"
            )

    def _there(self, prefix: str) -> list[str]:
        """Those of `HIDDEN` that stand as tables under their name with this in front."""
        return [table for table in HIDDEN if self._one("has_table", name=f"{prefix}{table}")]

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

    def queues(self) -> list[Row]:
        """All queues with their settings and counts."""
        return self._all(self._step("queues"))

    def schedules(self) -> list[Row]:
        """All schedules."""
        return self._all(self._step("schedules"))

    def redrives(self) -> list[Row]:
        """All redrives."""
        return self._all(self._step("redrives"))

    def namespaces(self) -> list[Row]:
        """All namespaces; none where the file does not know of them."""
        return self._all(self._step("namespaces")) if self._knows_tokens() else []

    def tokens(self) -> list[Row]:
        """All tokens; none where the file does not know of them."""
        return self._all(self._step("tokens")) if self._knows_tokens() else []

    def batches(self) -> Iterator[Row]:
        """Batches that pipelines have published; none where the file does not know of them."""
        if not self._knows_pipelines():
            return iter(())
        return self._connection.execute(SQL["batches"])

    def batch_count(self) -> int:
        """How many those are."""
        return self._one("count_batches") if self._knows_pipelines() else 0

    def left(self) -> Left:
        """The rows of pipelines that stay behind."""
        if not self._knows_pipelines():
            return Left()
        return Left(*self._connection.execute(SQL["left"]).fetchone())

    def channels(self, now_ms: int) -> list[Row]:
        """Channels that have something to keep."""
        return self._all("channels", now_us=now_ms * 1000)

    def dedup(self) -> Iterator[Row]:
        """All entries of dedup."""
        return self._connection.execute(SQL["dedup"])

    def history(self, queue: int, after: int, most: int) -> list[Row]:
        """The next rows of a queue's history."""
        return self._all("history", queue=queue, after=after, most=most)

    def events(self, after: int, most: int) -> list[Row]:
        """The next events."""
        return self._all("events", after=after, most=most)

    def messages(self, after: int, last: int) -> Iterator[Row]:
        """Messages by id, up to `last`."""
        return self._connection.execute(SQL["messages"], {"after": after, "last": last})

    def changed(self, ids: Sequence[int]) -> Iterator[Row]:
        """These messages as they are now, as far as they are there."""
        return self._connection.execute(SQL["changed_messages"], {"ids": json.dumps(ids)})

    def all_messages(self) -> Iterator[Row]:
        """Every message."""
        return self._connection.execute(SQL["all_messages"])

    def leased(self) -> Iterator[Row]:
        """Messages that are leased, with their leases."""
        return self._connection.execute(SQL["leased"])

    def changes(self, after: int, most: int) -> SourceChanges:
        """The changes noted after a number."""
        messages: dict[int, None] = {}
        history: list[tuple[int, int, int, int]] = []
        rows = self._all("changes", after=after, most=most)
        for _, id_, queue, attempt, finished_at in rows:
            if queue is None:
                messages[id_] = None
            else:
                history.append((queue, id_, attempt, finished_at))
        return SourceChanges(rows[-1]["seq"] if rows else after, tuple(messages), tuple(history))

    def last_given(self) -> int:
        """The highest id that was ever given out."""
        return self._one("last_given")

    def collisions(self, ids: Sequence[int]) -> tuple[int, int | None]:
        """How many of these ids are messages here, and the lowest of them."""
        found = self._connection.execute(SQL["collisions"], {"ids": json.dumps(ids)}).fetchone()
        return found[0], found[1]

    def message_counts(self) -> dict[int, tuple[int, int]]:
        """By queue: how many messages, and the sum of their ids."""
        return {queue: (n, ids) for queue, n, ids in self._all("count_messages")}

    def history_counts(self) -> dict[int, tuple[int, int]]:
        """The same for the history."""
        return {queue: (n, ids) for queue, n, ids in self._all("count_history")}

    def leased_counts(self) -> dict[int, int]:
        """Leased messages by queue."""
        return dict(map(tuple, self._all("count_leased")))

    def policy_counts(self) -> dict[int, int]:
        """Channels with a policy by queue."""
        return dict(map(tuple, self._all("count_policies")))

    def dedup_count(self) -> int:
        """Entries of dedup."""
        return self._one("count_dedup")

    # --- how ------------------------------------------------------------------------------------

    def _knows_tokens(self) -> bool:
        return "token" in (*self._there("turnabout_"), *self._there("turnabout_moved_"))

    def _knows_pipelines(self) -> bool:
        return self._one("has_table", name="turnabout_sink_batch")

    def _step(self, name: str) -> str:
        """The statement for the file as it is: in a closed one some tables have other names."""
        begun = self.begun()
        return name if begun is None or begun.state == "copying" else f"closed_{name}"

    def _all(self, step: str, **about: Any) -> list[Row]:
        return self._connection.execute(SQL[step], about).fetchall()

    def _one(self, step: str, **about: Any) -> Any:
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
