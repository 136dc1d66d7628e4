"""Figures of streams and archives for the server's `/metrics`: see `turnabout.slices`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from turnabout.pipeline.spark.access import waiting
from turnabout.pipeline.verbs import SubscriptionList, WatermarkList
from turnabout.words.administration import QueueTotals


async def gauges(
    run: Callable[[Any], Awaitable[Any]], totals: Sequence[QueueTotals]
) -> list[Metric]:
    """Lag of each stream of leases, by the totals of its queues, and of each archive."""
    unfinished = GaugeMetricFamily(
        "turnabout_stream_messages_unfinished",
        "Messages not ended yet in the queues of a stream of leases.",
        labels=["subscription"],
    )
    age = GaugeMetricFamily(
        "turnabout_stream_oldest_message_age_seconds",
        "How long ago the oldest ready message of a stream was sent; 0 if none is ready.",
        labels=["subscription"],
    )
    behind = GaugeMetricFamily(
        "turnabout_archive_lag_seconds",
        "How long the oldest row that an archive lacks has been there.",
        labels=["archive"],
    )
    for stream in await run(SubscriptionList()):
        messages, oldest_ms = waiting(totals, stream.queues)
        unfinished.add_metric([stream.name], messages)
        age.add_metric([stream.name], oldest_ms / 1000)
    for mark in await run(WatermarkList()):
        behind.add_metric([mark.archive], mark.lag_ms / 1000)
    return [unfinished, age, behind]
