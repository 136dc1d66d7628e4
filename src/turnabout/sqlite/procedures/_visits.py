"""A receiver's visits to channels: what each of them gives, a share at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures._gate import Gate
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.limits import FOREVER_MS

SQL = statements("receive")


Found = tuple[Any, ...]
"""A row of a message: id, channel, priority (and more: `at` of one in a limited channel), or all
that a delivery needs; the id comes first.
"""
_AT = 3


class Free:
    """A visit to a channel without limits. Its first messages are known from the hop to it."""

    __slots__ = ("_about", "_connection", "_known", "_step", "_taken", "has_more")
    weight = 1

    def __init__(
        self,
        connection: Connection,
        step: Literal["heads", "heads_whole"],
        about: Mapping[str, Any],
        known: Sequence[Found],
        *,
        taken: int = 0,
    ) -> None:
        """`about` says which queue and channel, and what else the step wants to know."""
        self._connection = connection
        self._step = SQL[step]
        self._about = about
        self._known = list(known)
        self._taken = taken
        self.has_more = True

    def give(self, share: int) -> Sequence[Found]:
        """The next messages, at most `share`."""
        known = len(self._known)
        upto = self._taken + share
        if upto > known:
            about = {**self._about, "most": upto - known, "known": known}
            self._known += self._connection.tuples(self._step, about)
        found = self._known[self._taken : upto]
        self._taken += len(found)
        self.has_more = len(found) == share
        return found


class Limited:
    """A visit to a channel with a row: it gives what its limits allow, and then may fall asleep."""

    __slots__ = ("_about", "_connection", "_fifo", "_gate", "_now", "_wake_at", "has_more", "taken")

    def __init__(
        self, connection: Connection, queue: Queue, channel: sqlite3.Row, now: int
    ) -> None:
        self._connection = connection
        self._about = {"queue": queue["id"], "channel": channel["name"]}
        self._fifo = queue["fifo"]
        self._now = now
        self._gate = Gate(channel, queue, now)
        self._wake_at: int | None = 0
        self.taken = 0
        self.has_more = True

    @property
    def weight(self) -> int:
        return self._gate.weight

    def give(self, share: int) -> Sequence[Found]:
        """The next messages, at most `share`, as far as the limits allow."""
        allowed = self._gate.allows()
        if allowed == 0:
            self._sleep(self._gate.opens_at())
            return []
        asked = min(share, allowed)
        about = {**self._about, "most": self.taken + asked}
        heads = self._connection.tuples(SQL["limited_heads"], about)[self.taken :]
        if heads and self._fifo and heads[0][_AT] > self._now:
            self._sleep(None if heads[0][_AT] == FOREVER_MS else heads[0][_AT])
            return []
        self.taken += len(heads)
        self._gate.take(len(heads))
        if len(heads) < asked:
            self._sleep(None)
        elif asked == allowed:
            self._sleep(self._gate.opens_at())
        return heads

    def result(self) -> tuple[int, int, int | None, int, str]:
        """The row's values after the visit, for the statement `served`."""
        about = self._about
        return self.taken, self._gate.tat_us, self._wake_at, about["queue"], about["channel"]

    def _sleep(self, until: int | None) -> None:
        """Until a time; None: until a send, a settled lease or a new policy wakes it."""
        self.has_more = False
        self._wake_at = until


Visit = Free | Limited
