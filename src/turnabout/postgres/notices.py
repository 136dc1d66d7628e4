"""Notifying other processes of a change in a queue.

A notification is a hint, sent after the verb's own transaction and never inside it: NOTIFY takes a
lock that would make all senders of the server commit one after another. It is for those who have
said that they wait (the table `waiter`), so a call asks whether there are any: at once if the last
such call was more than a moment ago, else together with all that comes in that moment.

So a process makes a bounded number of these calls, whatever it sends; where nobody waits each is a
look into a small index, and nothing more. And nothing is slept over: a process that waits says so
and then looks once more; one that sends asks after its commit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from turnabout.postgres.revision import rendered
from turnabout.words.verb import Change

PAUSE_SECONDS = 0.004
ALONE_PAUSE_SECONDS = 0.01
"""The same where the last call found that nobody waits: usually nobody is waiting."""
ENDS_PAUSE_SECONDS = 0.05
"""The same where there are only ends of messages: seldom does somebody wait for those, and a call
for each ack would be a good part of it."""

NOTIFY_WAITERS = rendered(
    "select * from turnabout.notify_waiters($1::text[], $2::smallint[], $3::int[], $4::text[])"
).encode()
ADD_WAITERS = rendered(
    "select turnabout.add_waiters($1::text, $2::text[], $3::smallint[], $4::int, $5::boolean)"
).encode()
REMOVE_WAITERS = rendered("select turnabout.remove_waiters($1::text)").encode()
QUEUES_TO_LOOK = rendered("select * from turnabout.queues_to_look($1::text[], $2::int)").encode()
REBUILD = rendered("select turnabout.rebuild()").encode()
STATEMENTS = (NOTIFY_WAITERS, REBUILD)
"""Privilege of every role: all notify waiters, and may be the first after a crash."""
WAITING = (ADD_WAITERS, REMOVE_WAITERS, QUEUES_TO_LOOK)
"""Privilege of roles that may receive, or see how messages end."""
QUEUES_MAX, COUNT_MAX = 1_000, 1_000_000
"""Queues in one call (sql/look/check_queue_count.sql), and changes of one in it."""


class Notice(NamedTuple):
    """Note a change in the queue, for at most `most` receivers (None: all)."""

    queue: str
    change: Change = Change.ANY
    most: int | None = None
    was_notified: bool = False
    """Receivers of this process were notified already: they count among these."""


class Notices:
    """A process's pending notices for others, collected until they are due. Thread-safe."""

    def __init__(self, process: str) -> None:
        """`process`: the name by which it waits itself."""
        self._process = process
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, Change, bool], int | None] = {}
        self._called_at = -ENDS_PAUSE_SECONDS
        self._pause = PAUSE_SECONDS
        self.due_at = math.inf
        """The time of the next call; never, if nothing is pending. Ends alone can wait longer."""

    def add(self, notices: Sequence[Notice]) -> None:
        """Add changes, to be sent as soon as they are due."""
        with self._lock:
            for queue, change, count, was_notified in notices:
                key = (queue, change, was_notified)
                before = self._pending.get(key, 0)
                self._pending[key] = None if count is None or before is None else before + count
                pause = ENDS_PAUSE_SECONDS if change == Change.ENDED else self._pause
                self.due_at = min(self.due_at, self._called_at + pause)

    def found(self, *, waiters: bool) -> None:
        """Note the result of the last call. What came meanwhile is due by it, too."""
        with self._lock:
            before, self._pause = self._pause, PAUSE_SECONDS if waiters else ALONE_PAUSE_SECONDS
            if self.due_at == self._called_at + before:
                self.due_at = self._called_at + self._pause

    def take(self, now: float) -> Sequence[Any] | None:
        """The parameters of `NOTIFY_WAITERS`, for the caller to run; None: it is too early, or
        there is nothing.
        """
        with self._lock:
            if now < self.due_at:
                return None
            # All of the calls of all processes in the same order, as they lock rows.
            taken = sorted(self._pending.items())[:QUEUES_MAX]
            for key, _ in taken:
                del self._pending[key]
            self._called_at = now
            self.due_at = now + self._pause if self._pending else math.inf
        return (
            [queue for (queue, _, _), _ in taken],
            [int(change) for (_, change, _), _ in taken],
            [None if count is None else min(count, COUNT_MAX) for _, count in taken],
            [self._process if was_notified else None for (_, _, was_notified), _ in taken],
        )

    def forget(self) -> None:
        """Nobody can be notified: there is no connection."""
        with self._lock:
            self._pending.clear()
            self.due_at = math.inf


def change_of(payload: str) -> tuple[str, Change]:
    """The queue and the change that a notification is about."""
    change, _, queue = payload.partition(" ")
    return queue, Change(int(change))
