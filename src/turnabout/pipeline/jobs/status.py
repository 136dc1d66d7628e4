"""`status`: who reads the database in bulk, how far they are, what holds them back. No Spark."""

from __future__ import annotations

from contextlib import closing

from turnabout.pipeline.results import Status
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogLook, SubscriptionList, WatermarkList


def status(url: str) -> Status:
    """Ask the database. Raises: UsageError, Forbidden, Disconnected, WrongVersion."""
    with closing(Access(url)) as access:
        return Status(
            access.run(SubscriptionList()), access.run(WatermarkList()), access.run(LogLook())
        )
