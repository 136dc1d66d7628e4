"""Limits of a channel, or of a whole queue, at one moment: slots, token bucket, pause.
Arithmetic only.
"""

from __future__ import annotations

import sqlite3
from typing import Literal

from turnabout.sqlite.procedures._queue import Queue

_PLENTY = 2**31


class Limits:
    """Slots and a bucket: how many deliveries may begin now.

    The bucket is one number, the theoretical arrival time (GCRA) in microseconds: a delivery is
    allowed while `tat - (burst - 1) * interval <= now`, and moves it to `max(tat, now) + interval`.
    """

    __slots__ = ("_burst", "_interval", "_now", "slots", "tat_us")

    def __init__(
        self,
        free: int | None,
        interval: int | None,
        burst: int | None,
        tat_us: int,
        now: int,
    ) -> None:
        """`free`: slots; None: not limited."""
        self._now = now * 1000
        self._interval = interval
        self._burst = burst or 1
        self.slots = _PLENTY if free is None else max(0, free)
        self.tat_us = tat_us

    def allows(self) -> int:
        """Number of deliveries that may begin now."""
        return min(self.slots, self._tokens())

    def take(self, count: int) -> None:
        """Consume `count` slots and tokens."""
        self.slots -= count
        if self._interval is not None:
            self.tat_us = max(self.tat_us, self._now) + count * self._interval

    def blocks(self) -> Literal["paused", "concurrency", "rate"] | None:
        """The limit that allows no delivery now."""
        if self.slots == 0:
            return "concurrency"
        return "rate" if self._tokens() == 0 else None

    def opens_at(self) -> int | None:
        """Time of the bucket's next delivery, in ms; None: the bucket doesn't block."""
        if self.blocks() != "rate" or self._interval is None:
            return None
        return -(-(self.tat_us - (self._burst - 1) * self._interval) // 1000)

    def _tokens(self) -> int:
        if self._interval is None:
            return _PLENTY
        ahead = max(self.tat_us - self._now, 0)
        return max(0, self._burst - -(-ahead // self._interval))


class ChannelLimits(Limits):
    """The limits of one channel, its own where it has any, else its queue's default.

    If the rate changed, debt from the slower rate is capped at one full bucket. (Doing so on every
    visit would erase debt recorded by a receiver with a newer clock reading.)
    """

    __slots__ = ("depth_us", "paused", "paused_until", "weight")

    def __init__(self, channel: sqlite3.Row, queue: Queue, now: int) -> None:
        rated = channel if channel["rate_count"] is not None else queue
        most = _first(channel["max_concurrency"], queue["max_concurrency"])
        free = None if most is None else most - channel["leased"]
        if queue["fifo"]:  # a run of messages, and none while any is out
            run: int = queue["fifo_run"]
            free = 0 if channel["leased"] else min(run, _first(most, run) or run)
        interval, burst = rated["rate_interval_us"], rated["rate_burst"]
        super().__init__(free, interval, burst, channel["tat_us"], now)
        until = channel["paused_until"]
        self.paused_until: int | None = until if until is not None and until > now else None
        self.paused = bool(channel["paused"]) or self.paused_until is not None
        self.weight: int = _first(channel["weight"], queue["weight"]) or 1
        self.depth_us: int = channel["depth_us"]
        if interval is not None and self.depth_us != self._burst * interval:
            self.depth_us = self._burst * interval
            self.tat_us = min(self.tat_us, self._now + self.depth_us)

    def allows(self) -> int:
        return 0 if self.paused else super().allows()

    def blocks(self) -> Literal["paused", "concurrency", "rate"] | None:
        return "paused" if self.paused else super().blocks()

    def opens_at(self) -> int | None:
        return self.paused_until if self.paused else super().opens_at()


def _first(own: int | None, default: int | None) -> int | None:
    return default if own is None else own
