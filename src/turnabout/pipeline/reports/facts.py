"""The page's facts, collected from Spark: few rows, however large the report's input.

Charts are drawn for the busiest queues, and in them for the busiest channels and those that waited
longest. The rest is in sums, and in the Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from turnabout.pipeline.reports import tables
from turnabout.pipeline.reports.charts.axes import step_of
from turnabout.pipeline.reports.tables import CHANNEL, HOUR_MS, QUEUE

Row = Mapping[str, Any]
Name = tuple[str, str]
"""Namespace and queue."""

QUEUES_DRAWN: Final = 4
CHANNELS_DRAWN: Final = 14
COARSE_STEPS: Final = 32


@dataclass(frozen=True)
class ReportFacts:
    """All facts. Instants are milliseconds; `step_ms` and `coarse_ms` are steps of charts.

    queues     a row of measures each, the busiest first
    fair       by queue: Jain's index over the whole time
    steps, coarse_fair, heat, timed   of queues that are drawn
    channels   the busiest ones, of all queues;  channel_count  how many there are
    kinds      of failures, the commonest first;  kind_count  how many there are
    """

    first_ms: int
    until_ms: int
    step_ms: int
    coarse_ms: int
    total: Row
    queues: Sequence[Row]
    fair: Mapping[Name, Row]
    channels: Sequence[Row]
    channel_count: int
    kinds: Sequence[Row]
    kind_count: int
    all_steps: Sequence[Row] = ()
    steps: Mapping[Name, Sequence[Row]] = field(default_factory=dict[Name, Sequence[Row]])
    coarse_fair: Mapping[Name, Sequence[Row]] = field(default_factory=dict[Name, Sequence[Row]])
    heat: Mapping[Name, Sequence[Row]] = field(default_factory=dict[Name, Sequence[Row]])
    timed: Mapping[Name, Sequence[Row]] = field(default_factory=dict[Name, Sequence[Row]])

    @property
    def drawn(self) -> Sequence[Row]:
        """The queues that have charts."""
        return self.queues[:QUEUES_DRAWN]


def gather(
    narrowed: DataFrame,
    by_hour: DataFrame,
    kinds: DataFrame,
    first_ms: int,
    until_ms: int,
    *,
    top: int,
    done: Callable[[], None],
) -> ReportFacts:
    """Ask Spark for it; `done` is called after each of `PARTS` parts. Both first tables are read
    several times, so they had better be cached.
    """
    step_ms = step_of(until_ms - first_ms)
    coarse_ms = step_of(until_ms - first_ms, COARSE_STEPS)
    queues = _rows(tables.measures(narrowed, QUEUE))
    queues.sort(key=lambda row: (-row["messages"], row["namespace"], row["queue"]))
    total = _total(narrowed, queues)
    done()
    with tables.cached(tables.merged(by_hour, CHANNEL)) as by_channel:
        fair = {_name(row): row for row in _rows(tables.fairness(by_channel))}
        channel_count = by_channel.count()
        busiest = by_channel.orderBy(F.desc("messages"), *CHANNEL).limit(top)
        chosen = _rows(_of(_chosen(by_channel), queues[:QUEUES_DRAWN]))
        listed = _rows(busiest)
    done()
    worst = _rows(kinds.orderBy(F.desc("messages"), *QUEUE, "error").limit(top))
    done()
    all_steps, steps = _steps(narrowed, queues, step_ms)
    done()
    timed = _rows(tables.measures(narrowed.where(_any_of([*chosen, *listed])), CHANNEL))
    done()
    coarse = _of(_coarse(narrowed, by_hour, coarse_ms), queues[:QUEUES_DRAWN])
    busy = [row for row in chosen if row["busy"] <= CHANNELS_DRAWN]
    heat = _rows(coarse.where(_any_of(busy)).select(*CHANNEL, "at", "messages", "wait_mean_ms"))
    coarse_fair = _rows(tables.fairness(coarse))
    done()
    quantiles = {_channel(row): row for row in timed}
    return ReportFacts(
        first_ms=first_ms,
        until_ms=until_ms,
        step_ms=step_ms,
        coarse_ms=coarse_ms,
        total=total,
        queues=queues,
        fair=fair,
        channels=[quantiles[_channel(row)] for row in listed],
        channel_count=channel_count,
        kinds=worst,
        kind_count=kinds.count(),
        all_steps=all_steps,
        steps=_by_queue(steps),
        coarse_fair=_by_queue(coarse_fair),
        heat=_by_queue(heat),
        timed=_by_queue(
            {**quantiles[_channel(row)], "busy": row["busy"], "slow": row["slow"]} for row in chosen
        ),
    )


PARTS: Final = 6


def ms(at: datetime) -> int:
    """An instant of Spark's as milliseconds."""
    return round(at.astimezone(UTC).timestamp() * 1000)


def _coarse(narrowed: DataFrame, by_hour: DataFrame, coarse_ms: int) -> DataFrame:
    """Measures by channel and coarse step; from the hours where these make up steps."""
    if coarse_ms % HOUR_MS == 0:
        start = F.floor(F.unix_millis("hour") / coarse_ms).cast("long") * coarse_ms
        table = by_hour.withColumn("at", F.timestamp_millis(start))
        return tables.merged(table, (*CHANNEL, "at"))
    at = narrowed.withColumn("at", tables.start_of(coarse_ms))
    return tables.counted(at, (*CHANNEL, "at"))


def _total(narrowed: DataFrame, queues: Sequence[Row]) -> Row:
    if len(queues) == 1:
        return queues[0]
    return _rows(tables.measures(narrowed, ()))[0]


def _steps(
    narrowed: DataFrame, queues: Sequence[Row], step_ms: int
) -> tuple[Sequence[Row], Sequence[Row]]:
    """Totals of all queues together, and the measures of those that are drawn."""
    at = narrowed.withColumn("at", tables.start_of(step_ms))
    steps = _rows(tables.measures(_of(at, queues[:QUEUES_DRAWN]), (*QUEUE, "at")))
    if len(queues) == 1:
        return steps, steps
    return _rows(tables.counted(at, ("at",))), steps


def _chosen(by_channel: DataFrame) -> DataFrame:
    """Each queue's busiest channels, and those that waited longest, with their ranks."""
    queue = Window.partitionBy(*QUEUE)
    busy = F.row_number().over(queue.orderBy(F.desc("messages"), "channel"))
    slow = F.row_number().over(queue.orderBy(F.desc_nulls_last("wait_mean_ms"), "channel"))
    placed = by_channel.select(
        *CHANNEL, "messages", "wait_mean_ms", busy.alias("busy"), slow.alias("slow")
    )
    return placed.where((F.col("busy") <= CHANNELS_DRAWN) | (F.col("slow") <= CHANNELS_DRAWN))


def _of(table: DataFrame, queues: Sequence[Row]) -> DataFrame:
    """Rows of some queues."""
    return table.where(_either([_is_queue(*_name(row)) for row in queues]))


def _any_of(channels: Iterable[Row]) -> Column:
    """Whether a row is of one of these channels."""
    names: dict[Name, set[str]] = {}
    for row in channels:
        names.setdefault(_name(row), set()).add(row["channel"])
    return _either(
        [_is_queue(*name) & F.col("channel").isin(sorted(some)) for name, some in names.items()]
    )


def _either(conditions: Sequence[Column]) -> Column:
    return reduce(lambda one, other: one | other, conditions, F.lit(False))  # noqa: FBT003


def _is_queue(namespace: str, queue: str) -> Column:
    return (F.col("namespace") == namespace) & (F.col("queue") == queue)


def _rows(table: DataFrame) -> list[Row]:
    return [row.asDict() for row in table.collect()]


def _name(row: Row) -> Name:
    return row["namespace"], row["queue"]


def _channel(row: Row) -> tuple[str, str, str]:
    return (*_name(row), row["channel"])


def _by_queue(rows: Iterable[Row]) -> dict[Name, Sequence[Row]]:
    found: dict[Name, list[Row]] = {}
    for row in rows:
        found.setdefault(_name(row), []).append(row)
    return dict(found)
