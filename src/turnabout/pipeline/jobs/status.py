"""`status`: who reads the database in bulk, how far they are, what holds them back. No Spark."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import (
    LogLook,
    LogState,
    Subscription,
    SubscriptionList,
    Watermark,
    WatermarkList,
)


@dataclass(frozen=True)
class Status:
    """The pipelines of a database, as they are now."""

    subscriptions: tuple[Subscription, ...]
    archives: tuple[Watermark, ...]
    log: LogState

    def behind(self, seconds: float) -> tuple[Watermark, ...]:
        """The archives whose oldest missing row has waited for longer than that."""
        return tuple(mark for mark in self.archives if mark.lag_ms > seconds * 1000)


def status(url: str) -> Status:
    """Ask the database. Raises: UsageError, Forbidden, Disconnected, WrongVersion."""
    with closing(Access(url)) as access:
        return Status(
            access.run(SubscriptionList()), access.run(WatermarkList()), access.run(LogLook())
        )
