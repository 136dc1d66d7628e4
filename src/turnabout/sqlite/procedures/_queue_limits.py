"""The limits of a whole queue, beside those of its channels. Its row counts its live leases, as
long as it has such a limit; a queue without one costs nothing here.
"""

from __future__ import annotations

from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures._channel_limits import Limits
from turnabout.sqlite.procedures._queue import Queue


class QueueLimits(Limits):
    """Number of messages that the queue may hand out now."""

    __slots__ = ("_connection", "_leased", "_queue")

    def __init__(self, connection: Connection, queue: Queue, now: int) -> None:
        state = connection.execute(_queue.SQL["own_limits"], (queue["id"],)).fetchone()
        self._connection = connection
        self._queue = queue
        self._leased, tat_us = state
        most = queue["queue_max_concurrency"]
        free = None if most is None else most - self._leased
        interval, burst = queue["queue_rate_interval_us"], queue["queue_rate_burst"]
        super().__init__(free, interval, burst, tat_us, now)

    def take(self, count: int) -> None:
        super().take(count)
        self._leased += count
        self._write()

    def begin(self, old: Queue) -> None:
        """Change the limits: earlier leases count, and debt from a slower rate is capped at one
        full bucket.
        """
        if not old["has_own_limits"]:
            counted = self._connection.execute(_queue.SQL["count_leases"], (self._queue["id"],))
            (self._leased,) = counted.fetchone()
        if self._interval is not None and _depth(self._queue) != _depth(old):
            self.tat_us = min(self.tat_us, self._now + _depth(self._queue))
        self._write()

    def _write(self) -> None:
        state = (self._leased, self.tat_us, self._queue["id"])
        self._connection.execute(_queue.SQL["set_own_limits"], state)


def of(connection: Connection, queue: Queue, now: int) -> QueueLimits | None:
    """The limits of the queue itself, if it has any."""
    return QueueLimits(connection, queue, now) if queue["has_own_limits"] else None


def give_back(connection: Connection, queue: Queue, count: int) -> None:
    """Free the slots of `count` leases that ended."""
    if count and queue["has_own_limits"]:
        connection.execute(_queue.SQL["leases_ended"], (count, queue["id"]))


def _depth(queue: Queue) -> int:
    return (queue["queue_rate_burst"] or 0) * (queue["queue_rate_interval_us"] or 0)
