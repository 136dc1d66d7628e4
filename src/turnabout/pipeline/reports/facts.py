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
from turnabout.words.fairness import STARVED_BELOW

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
    steps     measures by queue and step, of queues that are drawn; `all_steps` of all together
    shares    by queue: channels with what they got of their fair share, the least first
    starved   channels that got under 0.7 of theirs for a while, the worst first
    """

    first_ms: int
    until_ms: int
    step_ms: int
    total: Row
    queues: Sequence[Row]
    channels: Sequence[Row]
    channel_count: int
    kinds: Sequence[Row]
    kind_count: int
    all_steps: Sequence[Row]
    steps: Mapping[Name, Sequence[Row]]
    shares: Mapping[Name, Sequence[Row]]
    starved: Sequence[Row]

    @property
    def drawn(self) -> Sequence[Row]:
        """The queues that have charts."""
        return self.queues[:QUEUES_DRAWN]


def keep(engine: ReportEngine, scope: ReportScope, progress: Progress) -> Kept:
    """Keep the tables `hours`, `failures` and `fairness`, from `narrow`."""
    text = "select count(*) as n, min(ended_ms) as first, max(ended_ms) as last from narrow"
    bounds = rows(engine, text)[0]
    last = bounds["last"] or 0
    first = scope.since or bounds["first"] or 0
    until = scope.until or last + 1
    progress(bounds["n"], 0.3)
    begin, end = bounds["first"] or 0, last + 1
    parts = engine.slices(bounds["n"])
    length = max(-(-(end - begin) // parts // HOUR) * HOUR + HOUR, HOUR)
    edges = [begin // HOUR * HOUR + n * length for n in range(parts + 1)]
    texts = [
        sql("hours", first=first, until=until, begin=left, end=right)
        for left, right in pairwise(edges)
    ]
    engine.keep("hours", texts)
    progress(bounds["n"], 0.5)
    kept = Kept(bounds["n"], max(first, begin), min(until, end), progress)
    engine.keep("failures", [sql("failures")])
    engine.keep("fairness", [sql("fairness", step=kept.fair_ms)])
    progress(bounds["n"], 0.7)
    return kept


def gather(engine: ReportEngine, kept: Kept, *, top: int) -> ReportFacts | None:
    """Ask the engine for the page's facts; None if there was no message."""
    if not kept.messages:
        return None
    shares, starved = _shares(engine, kept)
    queues = _queues(engine, shares, starved)
    total = queues[0] if len(queues) == 1 else _measures(engine, "everything", "narrow")[0]
    kept.progress(kept.messages, 0.8)
    step_ms = step_of(kept.until_ms - kept.first_ms)
    steps = _steps(engine, step_ms, f"{_QUEUE}, begun", times=True)
    engine.keep("top", [sql("channels", top=top)])
    channels = _measures(engine, _CHANNEL, _joined("top", _CHANNEL))
    ratios = {_channel(row): row for some in shares.values() for row in some}
    for row in channels:
        row.update({"ratio": ratios.get(_channel(row), {}).get("ratio")})
    kept.progress(kept.messages, 0.9)
    order = f"messages desc, {_QUEUE}, error limit {int(top)}"
    worst = f"select * from failures order by {order}"  # noqa: S608
    return ReportFacts(
        first_ms=kept.first_ms,
        until_ms=kept.until_ms,
        step_ms=step_ms,
        total=total,
        queues=queues,
        channels=sorted(channels, key=lambda row: (-row["messages"], _channel(row))),
        channel_count=sum(row["channels"] for row in queues),
        kinds=rows(engine, worst),
        kind_count=rows(engine, "select count(*) as n from failures")[0]["n"],
        all_steps=steps if len(queues) == 1 else _steps(engine, step_ms, "begun", times=False),
        steps=_by_queue(steps),
        shares=shares,
        starved=starved,
    )


def _queues(
    engine: ReportEngine, shares: Mapping[Name, Sequence[Row]], starved: Sequence[Row]
) -> list[dict[str, Any]]:
    about = {_name(row): row for row in rows(engine, sql("queues"))}
    queues = _measures(engine, _QUEUE, "narrow")
    for row in queues:
        name = _name(row)
        row.update(about[name])
        row["fairness"] = min((one["ratio"] for one in shares.get(name, ())), default=None)
        row["starved"] = tuple(one["channel"] for one in starved if _name(one) == name)
    queues.sort(key=lambda row: (-row["messages"], *_name(row)))
    return queues


def _measures(engine: ReportEngine, keys: str, source: str) -> list[dict[str, Any]]:
    """Counts and quantiles by some columns."""
    text = source if source.startswith("select") else f"select * from {source}"  # noqa: S608
    names = keys.split(", ")
    none = dict.fromkeys(f"{t}_{q}_ms" for t in ("wait", "handle") for q in ("p50", "p90", "p99"))
    times = {
        tuple(row[n] for n in names): row
        for row in rows(engine, sql("times", keys=keys, source=text))
    }
    return [
        {**none, **times.get(tuple(row[n] for n in names), {}), **row}
        for row in rows(engine, sql("counts", keys=keys, source=text))
    ]


def _steps(engine: ReportEngine, step_ms: int, keys: str, *, times: bool) -> list[dict[str, Any]]:
    """Measures by step of time; with quantiles those of queues that are drawn, else of all."""
    begun = f"cast(floor(ended_ms / {step_ms}) as bigint) * {step_ms} as begun"
    if not times:
        source = f"select *, {begun} from narrow"  # noqa: S608
        return rows(engine, sql("counts", keys=keys, source=source))
    busiest = f"select {_QUEUE} from narrow group by {_QUEUE}"  # noqa: S608
    order = f"order by count(*) desc, {_QUEUE} limit {QUEUES_DRAWN}"
    engine.keep("drawn", [f"{busiest} {order}"])
    return _measures(engine, keys, _joined("drawn", _QUEUE, f", {begun}"))


def _joined(table: str, keys: str, more: str = "") -> str:
    """Rows of the groups that a table names."""
    same = " and ".join(f"n.{key} = t.{key}" for key in keys.split(", "))
    return f"select n.*{more} from narrow as n join {table} as t on {same}"  # noqa: S608


def _shares(engine: ReportEngine, kept: Kept) -> tuple[dict[Name, list[Row]], list[Row]]:
    """Shares by queue, the lowest first, and the channels that were starved."""
    block = step_of(kept.until_ms - kept.first_ms, BLOCKS)
    words = {"step": max(block, kept.fair_ms), "least": LEAST}
    whole = rows(engine, sql("shares", keys=_CHANNEL, below="1e9", **words))
    whole.sort(key=lambda row: (row["ratio"], _channel(row)))
    starved: dict[tuple[str, ...], dict[str, Any]] = {}
    bad = rows(engine, sql("shares", keys=f"{_CHANNEL}, block", below=STARVED_BELOW, **words))
    for row in sorted(bad, key=lambda row: row["first_ms"]):
        one = starved.setdefault(_channel(row), {**row, "got": 0, "fair": 0.0, "waited_ms": 0})
        one["until_ms"] = row["last_ms"] + kept.fair_ms
        one["got"], one["fair"] = one["got"] + row["got"], one["fair"] + row["fair"]
        one["waited_ms"] = max(one["waited_ms"], row["waited_ms"])
    missed = sorted(starved.values(), key=lambda row: (row["got"] - row["fair"], _channel(row)))
    return _by_queue(whole), list(missed)


def _name(row: Row) -> Name:
    return row["namespace"], row["queue"]


def _channel(row: Row) -> tuple[str, str, str]:
    return (*_name(row), row["channel"])


def _by_queue(some: Iterable[Row]) -> dict[Name, list[Row]]:
    found: dict[Name, list[Row]] = {}
    for row in some:
        found.setdefault(_name(row), []).append(row)
    return found
