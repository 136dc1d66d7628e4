"""When other processes are notified of a change in a queue.

A notification is a hint, sent after the verb's own transaction and never inside it: NOTIFY takes a
lock that would make all senders of the server commit one after another. At most one per queue and
50 ms goes out, and one at the end of a busy stretch, so that the last send is noticed as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from turnabout.notifier import Notifier

NOTIFY = b"select pg_notify('turnabout', $1::text)"

PAUSE_SECONDS = 0.05


class DebouncedNotifier(Notifier):
    """A notifier that also says when other processes are to be notified."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until: dict[str, float] = {}
        self._put_off: set[str] = set()

    def changed(self, queue: str, later: Callable[[str, float], None]) -> bool:
        """The queue was changed here. True: notify the other processes now.

        If not now, `later` is called once for this stretch with the pause to keep; it ends the
        stretch by `sent_late`.
        """
        self.notify(queue)
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
