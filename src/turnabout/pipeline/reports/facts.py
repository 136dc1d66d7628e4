"""The tables that a report keeps, and what its page says of them: few rows of however many.

Charts are drawn for the busiest queues. The rest is in sums, and in the Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, Final

from turnabout.pipeline.lake import Filter
from turnabout.pipeline.reports.axes import step_of
from turnabout.pipeline.reports.engines import ReportEngine, rows, sql
from turnabout.pipeline.reports.units import HOUR
from turnabout.words.errors import UsageError
from turnabout.words.fairness import STARVED_BELOW
from turnabout.words.limits import FOREVER_MS, optional_whole

Row = Mapping[str, Any]
Name = tuple[str, str]
"""Namespace and queue."""

Progress = Callable[[int, float], object]
"""Called with the number of messages, as soon as that is known, and the share done, 0 to 1."""

QUEUES_DRAWN: Final = 4
FAIR_STEPS: Final = 288
"""Five minutes of a day: waits within a step are not seen."""
BLOCKS: Final = 24
LEAST: Final = 10
"""Messages of fair share below which a ratio says nothing."""

_QUEUE: Final = "namespace, queue"
_CHANNEL: Final = "namespace, queue, channel"
_ALL: Final = "select * from narrow"


@dataclass(frozen=True)
class ReportScope:
    """The rows that a report is about, as `report` takes them; lake None: a database's history."""

    lake: str | PathLike[str] | None = None
    archive: str | None = None
    since: int | None = None
    until: int | None = None
    queues: tuple[str, ...] = ()
    namespace: str | None = None
    storage: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            optional_whole(getattr(self, name), name, 0, FOREVER_MS)
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise UsageError("since has to be before until")

    @property
    def bounds(self) -> tuple[int, int]:
        """The instants between which messages finished: from the first on, and before the last."""
        return self.since or 0, FOREVER_MS if self.until is None else self.until

    @property
    def filter(self) -> Filter:
        """The rows of a lake that are wanted; a database is asked for them itself."""
        return Filter(self.since, self.until, self.namespace, self.queues or None)


@dataclass(frozen=True)
class Kept:
    """The number of messages that are counted, and the time of their ends; no time without them."""

    messages: int
    first_ms: int
    until_ms: int
    progress: Progress

    @property
    def fair_ms(self) -> int:
        """The step in which fairness is measured: an hour at most."""
        return min(HOUR, step_of(self.until_ms - self.first_ms, FAIR_STEPS))


@dataclass(frozen=True)
class ReportFacts:
    """All facts. Instants are milliseconds.

    queues    a row of measures each, the busiest first; `fairness`, `starved` and `channels` too
    channels  the busiest ones, of all queues     kinds     of failures, the commonest first
    steps     measures by queue and step, of queues that are drawn
    shares    channels with what they got of their fair share, the least first
    starved   channels that got under 0.7 of theirs for a while, the worst first
    """

    first_ms: int
    until_ms: int
    step_ms: int
    total: Row
    queues: Sequence[Row]
    channels: Sequence[Row]
    kinds: Sequence[Row]
    steps: Mapping[Name, Sequence[Row]]
    shares: Sequence[Row]
    starved: Sequence[Row]

    @property
    def channel_count(self) -> int:
        """Channels of all queues."""
        return sum(row["channels"] for row in self.queues)


def keep(engine: ReportEngine, scope: ReportScope, progress: Progress) -> Kept:
    """Keep the tables `hours`, `failures` and `fairness`, from `narrow`."""
    text = "select count(*) as n, min(ended_ms) as first, max(ended_ms) as last from narrow"
    bounds = rows(engine, text)[0]
    begin, end = bounds["first"] or 0, (bounds["last"] or 0) + 1
    progress(bounds["n"], 0.3)
    parts = engine.slices(bounds["n"])
    length = max(-(-(end - begin) // parts // HOUR) * HOUR + HOUR, HOUR)
    edges = [begin // HOUR * HOUR + n * length for n in range(parts + 1)]
    words = {"first": scope.since or begin, "until": scope.until or end}
    texts = [sql("hours", begin=left, end=right, **words) for left, right in pairwise(edges)]
    engine.keep("hours", texts)
    progress(bounds["n"], 0.5)
    kept = Kept(bounds["n"], begin, end, progress)
    engine.keep("failures", [sql("failures")])
    engine.keep("fairness", [sql("fairness", step=kept.fair_ms)])
    progress(bounds["n"], 0.7)
    return kept


def gather(engine: ReportEngine, kept: Kept, *, top: int) -> ReportFacts | None:
    """Ask the engine for the page's facts; None if there was no message."""
    if not kept.messages:
        return None
    shares, starved = _shares(engine, kept)
    many = "select namespace, queue, count(distinct channel) as channels from hours group by all"
    both = f"({_measures(_QUEUE, _ALL)}) as m join ({many}) as c using ({_QUEUE})"
    queues = rows(engine, f"select * from {both} order by messages desc, {_QUEUE}")  # noqa: S608
    least = {_name(one): one["ratio"] for one in reversed(shares)}
    missed = _by_queue(starved)
    for row in queues:
        row["fairness"] = least.get(_name(row))
        row["starved"] = tuple(one["channel"] for one in missed.get(_name(row), ()))
    total = queues[0] if len(queues) == 1 else rows(engine, _measures("everything", _ALL))[0]
    kept.progress(kept.messages, 0.8)
    step_ms = step_of(kept.until_ms - kept.first_ms)
    source = sql("steps", step=step_ms, drawn=QUEUES_DRAWN)
    steps = rows(engine, _measures(f"{_QUEUE}, begun", source))
    kept.progress(kept.messages, 0.9)
    kinds = "select *, count(*) over () as kinds from failures"
    return ReportFacts(
        first_ms=kept.first_ms,
        until_ms=kept.until_ms,
        step_ms=step_ms,
        total=total,
        queues=queues,
        channels=rows(engine, _measures(_CHANNEL, sql("channels", top=int(top)))),
        kinds=rows(engine, f"{kinds} order by messages desc, {_QUEUE}, error limit {int(top)}"),
        steps=_by_queue(steps),
        shares=shares,
        starved=starved,
    )


def _measures(keys: str, source: str) -> str:
    """The statement for counts and quantiles by some columns."""
    return sql("measures", keys=keys, source=source)


def _shares(engine: ReportEngine, kept: Kept) -> tuple[list[Row], list[Row]]:
    """Shares of channels, and the channels that were starved for a part of the time."""
    block = step_of(kept.until_ms - kept.first_ms, BLOCKS)
    words = {"step": max(block, kept.fair_ms), "least": LEAST}
    whole = sql("shares", keys=_CHANNEL, below="1e9", **words)
    parts = sql("shares", keys=f"{_CHANNEL}, block", below=STARVED_BELOW, **words)
    starved = sql("starved", shares=parts, fair_ms=kept.fair_ms)
    return [*rows(engine, whole)], [*rows(engine, starved)]


def _name(row: Row) -> Name:
    return row["namespace"], row["queue"]


def _by_queue(some: Iterable[Row]) -> dict[Name, list[Row]]:
    found: dict[Name, list[Row]] = {}
    for row in some:
        found.setdefault(_name(row), []).append(row)
    return found
