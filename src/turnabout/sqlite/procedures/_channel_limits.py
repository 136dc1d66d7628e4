"""What a limited channel may hand out at one moment: slots, token bucket, pause. Arithmetic."""

from __future__ import annotations

import sqlite3
from typing import Literal

from turnabout.sqlite.procedures._queue import Queue

_PLENTY = 2**31


class ChannelLimits:
    """The limits of one channel, its own where it has any, else its queue's default.

    The bucket is one number, the theoretical arrival time (GCRA) in microseconds: a delivery is
    allowed while `tat - (burst - 1) * interval <= now`, and moves it to `max(tat, now) + interval`.
    If it is another bucket than before, the debt of a slower rate is forgiven, but for a bucket.
    (At each visit that would forgive what somebody made whose clock reading is newer.)
    """

    __slots__ = ("_burst", "_interval", "_now", "depth_us", "paused", "slots", "tat_us", "weight")

    def __init__(self, channel: sqlite3.Row, queue: Queue, now: int) -> None:
        own_rate = channel["rate_count"] is not None
        rated = channel if own_rate else queue
        self._now = now * 1000
        self._interval: int | None = rated["rate_interval_us"]
        self._burst: int = rated["rate_burst"] or 1
        self.paused = bool(channel["paused"])
        self.weight: int = _first(channel["weight"], queue["weight"]) or 1
        most = 1 if queue["fifo"] else _first(channel["max_concurrency"], queue["max_concurrency"])
        self.slots = _PLENTY if most is None else max(0, most - channel["leased"])
        self.tat_us: int = channel["tat_us"]
        self.depth_us: int = channel["depth_us"]
        if self._interval is not None and self.depth_us != self._burst * self._interval:
            self.depth_us = self._burst * self._interval
            self.tat_us = min(self.tat_us, self._now + self.depth_us)

    def allows(self) -> int:
        """How many deliveries may begin now."""
        return 0 if self.paused else min(self.slots, self._tokens())

    def take(self, count: int) -> None:
        """That many deliveries begin."""
        self.slots -= count
        if self._interval is not None:
            self.tat_us = max(self.tat_us, self._now) + count * self._interval

    def blocks(self) -> Literal["paused", "concurrency", "rate"] | None:
        """Which limit allows nothing now."""
        if self.paused:
            return "paused"
        if self.slots == 0:
            return "concurrency"
        return "rate" if self._tokens() == 0 else None

    def opens_at(self) -> int | None:
        """When the bucket allows the next delivery, in ms; None: it is not what blocks."""
        if self.blocks() != "rate" or self._interval is None:
            return None
        return -(-(self.tat_us - (self._burst - 1) * self._interval) // 1000)

    def _tokens(self) -> int:
        if self._interval is None:
            return _PLENTY
        ahead = max(self.tat_us - self._now, 0)
        return max(0, self._burst - -(-ahead // self._interval))


def _first(own: int | None, default: int | None) -> int | None:
    return default if own is None else own
