"""The options of mode `lease`."""

from __future__ import annotations

from dataclasses import dataclass

from turnabout.pipeline.spark.options import PARTITIONS_MAX, Options
from turnabout.pipeline.verbs import BATCH_MESSAGES_MAX
from turnabout.words import limits
from turnabout.words.errors import UsageError


@dataclass(frozen=True)
class LeaseSettings:
    """The options about leases."""

    subscription: str
    subscribe: tuple[str, ...] | None
    pattern: str | None
    max_messages: int
    max_bytes: int | None
    parts: int
    lease_ms: int
    max_batch_seconds: float
    max_plans: int
    by_channel: bool
    fail_on_lease_lost: bool
    fail_on_data_loss: bool

    @classmethod
    def of(cls, options: Options) -> LeaseSettings:
        """Raises: UsageError."""
        subscribe, pattern = subscribed(options)
        if subscribe is None and pattern is None:
            raise UsageError(
                'mode=lease needs the queues to lease from: .option("subscribe", "emails") or '
                '.option("subscribePattern", "report-.*")'
            )
        return cls(
            subscription=options.need(
                "subscription",
                "a name for whose leases these are, such as the query's; each query has its own",
            ),
            subscribe=subscribe,
            pattern=pattern,
            max_messages=options.whole("maxOffsetsPerTrigger", 1, BATCH_MESSAGES_MAX),
            max_bytes=options.optional_whole("maxBytesPerTrigger", 1, limits.INTEGER_MAX),
            parts=options.whole("numPartitions", 1, PARTITIONS_MAX),
            lease_ms=limits.lease_ms(options.seconds("leaseSeconds", 1, limits.LEASE_SECONDS_MAX)),
            max_batch_seconds=options.seconds("maxBatchSeconds", 1, 30 * 86_400),
            max_plans=options.whole("maxBatchFailures", 1, limits.INTEGER_MAX),
            by_channel=options.flag("preserveKeyOrder"),
            fail_on_lease_lost=options.flag("failOnLeaseLost"),
            fail_on_data_loss=options.flag("failOnDataLoss"),
        )


def subscribed(options: Options) -> tuple[tuple[str, ...] | None, str | None]:
    """`subscribe` and `subscribePattern`. Raises: UsageError for both."""
    subscribe, pattern = options.names("subscribe"), options.pattern("subscribePattern")
    if subscribe is not None and pattern is not None:
        raise UsageError("give subscribe or subscribePattern, not both")
    return subscribe, pattern
