"""Time in milliseconds since 1970. SQLite has no clock but the host's, so the host is asked
directly: `time.time_ns` costs 40 ns, a SELECT that asks SQLite to do the same costs 2 µs.

A host's clock can be set back, so the file keeps the latest time that it has seen, and every
process goes on from there: at half speed, until the host's clock has caught up. (By less than a
second, it waits for that.) So no lease is granted that has run out for another process, and rates,
delays and leases take at most twice their time. A clock that is more than a day behind was wrong
before: then the file's time follows it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from turnabout.sqlite._statements import statements

Clock = Callable[[], int]

KEPT_MS = 100
"""What a process has seen may be that much later: each time would be a page more in each commit."""
STEP_MS = 1_000
AHEAD_MS_MAX = 86_400_000
_SQL = statements("clock")


class FileClock:
    """The file's time, as one process sees it. It never goes backwards."""

    __slots__ = ("_host", "_latest", "_since")

    def __init__(self, clock: Clock | None) -> None:
        self._host = clock or _host
        self._latest = 0
        self._since = (0, 0)
        """The file's time and the host's when the latter was last found behind."""

    def read(self, connection: sqlite3.Connection) -> tuple[int, bool]:
        """The time, inside a transaction, and whether the file should keep it."""
        host = self._host()
        (kept,) = connection.execute(_SQL["latest"]).fetchone()
        latest = max(kept, self._latest)
        if latest > host + AHEAD_MS_MAX:
            latest, self._since = 0, (0, 0)
        went_on_at, was = self._since
        now = max(host, went_on_at + (host - was) // 2)
        if now < latest:
            now = latest
            if latest > host + STEP_MS:
                self._since = (latest, host)
        self._latest = now
        return now, not kept <= now < kept + KEPT_MS

    @staticmethod
    def keep(connection: sqlite3.Connection, now: int) -> None:
        """Where the transaction has written something at that time anyway."""
        connection.execute(_SQL["keep"], (now,))


def _host() -> int:
    return time.time_ns() // 1_000_000
