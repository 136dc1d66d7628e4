"""Time in milliseconds since 1970, by the host's clock, as SQLite has none: `time.time_ns` takes
40 ns, a SELECT that asks SQLite for it 2 µs.

A host's clock can be set back, so the file keeps the latest time it has seen, and every process
goes on from there, at half speed until the host has caught up (by less than a second, it waits). So
no lease is granted that has run out for another process; rates, delays and leases take at most
twice their time. More than a day behind, the clock was wrong before: the file's time follows it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from turnabout.sqlite._statements import statements

Clock = Callable[[], int]

KEPT_MS = 100
"""Tolerated lead of the times seen: saving each would add a page to every commit."""
STEP_MS = 1_000
AHEAD_MS_MAX = 86_400_000
_NEVER = (0, 0)
_SQL = statements("clock")


class FileClock:
    """The file's time, as one process sees it. It never goes back behind what was written."""

    __slots__ = ("_host", "_latest", "_since")

    def __init__(self, clock: Clock | None) -> None:
        self._host = clock or _host
        self._latest = 0
        self._since = _NEVER
        """The file's time and the host's when the latter was last found behind."""

    def read(self, connection: sqlite3.Connection) -> tuple[int, bool]:
        """The time, inside a transaction, and whether the file should keep it."""
        host = self._host()
        (kept,) = connection.execute(_SQL["latest"]).fetchone()
        if kept <= host >= self._latest and self._since is _NEVER:
            self._latest = host
            return host, host >= kept + KEPT_MS
        written = kept + KEPT_MS  # all that was written, it was before: else the file followed
        latest = max(kept, min(self._latest, written))
        if latest > host + AHEAD_MS_MAX:
            latest, self._since = 0, _NEVER
        elif self._since[0] > written:
            self._since = _NEVER
        went_on_at, was = self._since
        now = max(host, went_on_at + (host - was) // 2)
        if now < latest and host + STEP_MS < latest:
            self._since = (latest, host)
        now = self._latest = max(now, latest)
        return now, not kept <= now < kept + KEPT_MS

    @staticmethod
    def keep(connection: sqlite3.Connection, now: int) -> None:
        """Save the time in a transaction that writes anyway."""
        connection.execute(_SQL["keep"], (now,))


def _host() -> int:
    return time.time_ns() // 1_000_000
