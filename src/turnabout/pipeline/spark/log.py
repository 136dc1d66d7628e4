"""Mode `log`: the history in the order of commits, as a stream; and what its batches share.

An offset is a position in the log. A range between two never changes, so a batch that Spark repeats
reads the same rows, and the database keeps nothing about the stream.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from turnabout.pipeline.spark import rows
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.filters import Names
from turnabout.pipeline.spark.lease_settings import subscribed
from turnabout.pipeline.spark.options import PARTITIONS_MAX, Options
from turnabout.pipeline.spark.streams import IDLE_SECONDS, StreamReader, fail_or_warn, in_task
from turnabout.pipeline.spark.versions import ReadLimit, ReadMaxRows
from turnabout.pipeline.verbs import (
    PARTS_MAX,
    START,
    LogAhead,
    LogAt,
    LogCut,
    LogLook,
    LogLost,
    LogNext,
    LogRange,
)
from turnabout.words import limits
from turnabout.words.errors import UsageError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@dataclass(frozen=True)
class LogSettings:
    """The options about the log, as a stream."""

    subscribe: tuple[str, ...] | None
    pattern: str | None
    starting: str
    starting_at: int | None
    max_rows: int
    min_rows: int | None
    max_delay_seconds: float
    parts: int
    fail_on_data_loss: bool

    @classmethod
    def of(cls, options: Options) -> LogSettings:
        """Raises: UsageError."""
        for name in ("endingOffsets", "endingTimestamp"):
            if name in options:
                raise UsageError(f"{name} is for spark.read: a stream has no end")
        subscribe, pattern = subscribed(options)
        max_rows = options.whole("maxOffsetsPerTrigger", 1, limits.INTEGER_MAX)
        min_rows = options.optional_whole("minOffsetsPerTrigger", 1, limits.INTEGER_MAX)
        if min_rows is not None and min_rows > max_rows:
            raise UsageError(
                f"minOffsetsPerTrigger ({min_rows}) is over maxOffsetsPerTrigger ({max_rows}), so "
                "it would never be reached"
            )
        return cls(
            subscribe=subscribe,
            pattern=pattern,
            starting=offset(options, "startingOffsets", (EARLIEST, LATEST)),
            starting_at=options.instant("startingTimestamp"),
            max_rows=max_rows,
            min_rows=min_rows,
            max_delay_seconds=options.seconds("maxTriggerDelay", 0, 86_400),
            parts=options.whole("numPartitions", 1, PARTITIONS_MAX),
            fail_on_data_loss=options.flag("failOnDataLoss"),
        )


def offset(options: Options, name: str, words: Sequence[str]) -> str:
    """`startingOffsets` or `endingOffsets`: one of the words, or a position as JSON."""
    text = (options.text(name) or "").strip()
    if text.lower() in words:
        return text.lower()
    try:
        fields = json.loads(text)
        if isinstance(fields["position"], str) and len(fields) == 1:
            return text
    except (ValueError, TypeError, KeyError):
        pass
    raise UsageError(
        f"{name} is {', '.join(words)} or a position such as "
        f'{{"position": "…"}}, not {limits.shown(text)}'
    )


def position_of(text: str) -> str:
    """The position in an offset that is one."""
    return json.loads(text)["position"]


def names_for(
    access: Access, verb: str, subscribe: tuple[str, ...] | None, pattern: str | None
) -> Names:
    """The rows to read, by the options and the token. Asks the database for a token only.

    Raises: Forbidden for a queue by name that the token does not cover.
    """
    queues = None
    if subscribe is not None:
        queues = tuple(access.stored(queue) for queue in subscribe)
        for queue in subscribe:
            access.allow(verb, queue)
    return Names(access.namespace, queues, pattern, access.globs(verb))


def lost(answer: LogLost | LogAhead, after: str) -> UsageError:
    """The reason why a stream or a batch cannot go on."""
    if isinstance(answer, LogAhead):
        return UsageError(
            f"the log ends at {answer.end!r}, and the position {after!r} or rows of the history "
            "are beyond it: the database was restored from a backup, or it is another one. See "
            "Backup in docs/operations.md, then begin with a new checkpoint"
        )
    return UsageError(
        f"history up to {answer.floor!r} was removed before it was read (the position is "
        f"{after!r}): keep it for longer (`history_seconds` of the queue); "
        "with failOnDataLoss=false the stream goes on at the first row there is"
    )


@dataclass
class LogPartition(InputPartition):
    """The input of one task: a range of the log, and how many rows it has in all.

    since  where the whole batch begins, if the task is to look whether rows behind that are gone
    """

    after: str
    until: str | None
    messages: int | None
    names: Names
    since: str = START


@dataclass
class _LogDriver:
    """The state of the driver's reader; it is never pickled."""

    until: str | None = None
    """The log's end at the start, under AvailableNow."""
    ranges: list[LogRange] = field(default_factory=list[LogRange])
    """Up to there, in batches."""
    end: str | None = None
    """End of the log when it was last asked for, before PySpark 4.2."""
    gave_at: float | None = None
    was_idle: bool = False
    stopping: threading.Event = field(default_factory=threading.Event)


class LogReader(StreamReader[LogSettings, _LogDriver]):
    """The reader of `readStream.format("turnabout")`."""

    new_driver = _LogDriver

    # --- in the driver ----------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the log ends: this run reads no further."""
        self._driver.until = self._access.run(LogLook()).end

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """Return a new checkpoint's start, from `startingTimestamp` or else `startingOffsets`."""
        settings = self._settings
        if settings.subscribe is not None:
            self._access.queues(settings.subscribe, None, ("history",))  # a name that is wrong
        if settings.starting_at is not None:
            return {"position": self._access.run(LogAt(settings.starting_at))}
        if settings.starting == EARLIEST:
            return {"position": START}
        if settings.starting == LATEST:
            return {"position": self._access.run(LogLook()).end}
        return {"position": position_of(settings.starting)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """About `maxOffsetsPerTrigger` rows a batch, of all queues."""
        return ReadMaxRows(self._settings.max_rows)

    def latestOffset(  # noqa: N802
        self, start: dict[str, str] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, str]:
        """The end of the next batch; `start` if there is nothing (or too little yet)."""
        driver = self._driver
        if start is None:  # before PySpark 4.2
            if driver.was_idle:
                driver.stopping.wait(IDLE_SECONDS)
            last, driver.end = driver.end, self._access.run(LogLook()).end
            driver.was_idle = driver.end == last
            return {"position": driver.end}
        after = start["position"]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if driver.until is not None:
            return {"position": self._up_to(driver.until, after, most)}
        if driver.was_idle:
            driver.stopping.wait(IDLE_SECONDS)
        found = self._next(after, most)
        if found.messages == 0 or self._is_too_little(found):
            driver.was_idle = True
            # Without rows the position may still have moved; Spark need not know.
            return start
        driver.was_idle = False
        driver.gave_at = time.monotonic()
        return {"position": found.until}

    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802
        """Return the log's end: Spark's progress shows it beside the end of the batch."""
        return {"position": self._access.run(LogLook()).end}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The range in pieces of about as many rows."""
        settings, after = self._settings, start["position"]
        if settings.fail_on_data_loss:
            self._next(after, 1)
        names = names_for(self._access, "history", settings.subscribe, settings.pattern)
        cut = self._access.run(LogCut(after, end["position"], settings.parts))
        return [LogPartition(one.after, one.until, one.messages, names, after) for one in cut]

    def commit(self, end: dict[str, str]) -> None:
        """Nothing to do: the checkpoint says where the stream is."""

    def stop(self) -> None:
        """Close the connection."""
        self._driver.stopping.set()
        self._access.close()

    # --- on executors -----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a range."""
        assert isinstance(partition, LogPartition)
        strict = self._settings.fail_on_data_loss
        return read_range(self._access, self._columns, partition, fail_on_data_loss=strict)

    # --- how --------------------------------------------------------------------------------------

    def _next(self, after: str, most: int | None) -> LogRange:
        found = self._access.run(
            LogNext(after, most, ignore_loss=not self._settings.fail_on_data_loss)
        )
        if not isinstance(found, LogRange):
            raise lost(found, after)
        return found

    def _up_to(self, until: str, after: str, most: int | None) -> str:
        """The end of the batch after a position, of those that end where the log did."""
        driver = self._driver
        if after == until:
            return after
        if all(one.after != after for one in driver.ranges):
            # What was removed is passed over here; then the rest is cut once for the whole run.
            since = self._next(after, 1).after
            whole = self._access.run(LogCut(since, until, 1))
            messages = sum(one.messages for one in whole)
            if not messages:
                return after
            parts = 1 if most is None else min(PARTS_MAX, -(-messages // most))
            cut = self._access.run(LogCut(since, until, parts))
            driver.ranges = [one for one in cut if one.messages]
            if not driver.ranges:
                return after
            return driver.ranges[0].until
        return next(one.until for one in driver.ranges if one.after == after)

    def _is_too_little(self, found: LogRange) -> bool:
        """Whether to wait for `minOffsetsPerTrigger` rows. The first batch does not wait."""
        settings, gave_at = self._settings, self._driver.gave_at
        if settings.min_rows is None or found.messages >= settings.min_rows or gave_at is None:
            return False
        return time.monotonic() - gave_at < settings.max_delay_seconds


def read_range(
    access: Access,
    columns: Sequence[str],
    partition: LogPartition,
    *,
    where: Sequence[Any] = (),
    fail_on_data_loss: bool = False,
) -> Iterator[Any]:
    """Batches of a range of the log. Raises: UsageError if rows are gone since it was planned and
    that matters: where all are wanted they are counted, else the floor tells.
    """
    names = partition.names
    span = rows.Span(partition.after, partition.until)
    found = 0
    keep = in_task()
    for batch in rows.read(access, "log_rows", columns, where, of=span, names=names, keep=keep):
        found += batch.num_rows
        yield batch
    is_all = names == Names() and not where
    if is_all and partition.messages is not None and found < partition.messages:
        text = (
            f"{partition.messages - found} rows of history between {partition.after!r} and "
            f"{partition.until!r} were removed before they were read"
        )
        else_ = "with failOnDataLoss=false the stream goes on without them"
        fail_or_warn(text, else_, fails=fail_on_data_loss)
    elif not is_all and fail_on_data_loss and partition.since != START:
        try:
            answer = access.run(LogNext(partition.since, 1))
        finally:
            access.close()
        if isinstance(answer, LogLost):
            raise lost(answer, partition.since)
