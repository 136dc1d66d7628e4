"""`status`: who reads the database in bulk, how far they are, what holds them back. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from turnabout.pipeline.results import Status
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import LogLook, Subscription, SubscriptionList, WatermarkList
from turnabout.words.administration import QueueTotals, Totals
from turnabout.words.value import replace


def status(url: str) -> Status:
    """Ask the database. Raises: UsageError, Forbidden, Disconnected, WrongVersion."""
    with closing(Access(url)) as access:
        streams = access.run(SubscriptionList())
        totals = {one.queue: one for one in access.run(Totals())} if streams else {}
        return Status(
            tuple(_counted(one, totals) for one in streams),
            access.run(WatermarkList()),
            access.run(LogLook()),
        )


def _counted(stream: Subscription, totals: Mapping[str, QueueTotals]) -> Subscription:
    """The subscription with what waits in its queues, and for how long."""
    its = [totals[queue] for queue in stream.queues if queue in totals]
    return replace(
        stream,
        unfinished=sum(one.unfinished for one in its),
        oldest_ready_ms=max((one.oldest_ready_ms or 0 for one in its), default=0),
    )
