"""`status`: who reads the database in bulk, how far they are, what holds them back. No Spark."""

from __future__ import annotations

from contextlib import closing

from turnabout.pipeline.results import Status
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogLook, SubscriptionList, WatermarkList
from turnabout.words.value import replace


def status(url: str) -> Status:
    """Ask the database. Raises: UsageError, Forbidden, Disconnected, WrongVersion."""
    with closing(Access(url)) as access:
        streams = [
            replace(one, unfinished=unfinished, oldest_ready_ms=oldest)
            for one in access.run(SubscriptionList())
            for unfinished, oldest in [access.waiting(one.queues)]
        ]
        return Status(tuple(streams), access.run(WatermarkList()), access.run(LogLook()))
