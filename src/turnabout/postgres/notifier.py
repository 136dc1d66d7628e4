"""Which queues changed: counts of it in this process, and when to notify other processes.

A notification is a hint, sent after the verb's own transaction and never inside it: NOTIFY takes a
lock that would make all senders of the server commit one after another. At most one per queue and
50 ms goes out, and one at the end of a busy stretch, so that the last send is noticed as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

NOTIFY = b"select pg_notify('turnabout', $1::text)"

PAUSE_SECONDS = 0.05


class Notifier:
    """Changes of queues, counted; receivers wait for the count to change."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counts: dict[str, int] = {}
        self._all = 0
        self._waiting = 0
        self._quiet_until: dict[str, float] = {}
        self._put_off: set[str] = set()

    def count(self, queue: str) -> int:
        """How often the queue changed so far."""
        return self._all + self._counts.get(queue, 0)

    def notify(self, queue: str) -> None:
        """The queue changed, in another process or in this one."""
        with self._changed:
            self._counts[queue] = self._counts.get(queue, 0) + 1
            self._changed.notify_all()

    def notify_all(self) -> None:
        """Wake all: the listener is back and may have missed changes, or the store closes."""
        with self._changed:
            self._all += 1
            self._changed.notify_all()

    def changed(self, queue: str, later: Callable[[str, float], None]) -> bool:
        """The queue was changed here. True: notify the other processes now.

        If not now, `later` is called once for this stretch with the pause to keep; it ends the
        stretch by `sent_late`.
        """
        if self._waiting:
            self.notify(queue)
        else:
            self._counts[queue] = self._counts.get(queue, 0) + 1
        now = time.monotonic()
        left = self._quiet_until.get(queue, 0.0) - now
        if left <= 0:
            self._quiet_until[queue] = now + PAUSE_SECONDS
            return True
        if queue not in self._put_off:
            self._put_off.add(queue)
            later(queue, left)
        return False

    def sent_late(self, queue: str) -> None:
        """The late notification goes out, or was given up: the next stretch begins."""
        self._put_off.discard(queue)

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Return when the count is no longer `seen`, or after `seconds`."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self.count(queue) != seen, seconds)
            finally:
                self._waiting -= 1
