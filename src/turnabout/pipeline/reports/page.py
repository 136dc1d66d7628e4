"""The page: one HTML file that needs nothing else, and may run nothing but its own few lines.

Jinja2 escapes whatever comes from a queue. A policy in the page allows
its own style and script by their digests, and no address at all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from turnabout import __version__
from turnabout.pipeline.reports import charts, facts, summary
from turnabout.pipeline.reports.charts import Band, ChartRow, Series, units
from turnabout.pipeline.reports.facts import ReportFacts, Row, ms
from turnabout.pipeline.reports.templates import render
from turnabout.words.records import OUTCOMES

STACKED: Final = ("done", "expired", "cancelled", "dead")
"""Outcomes from the bottom up: bad ones are on top, where they are seen."""

QUANTILES: Final = ("p50", "p90", "p99")
ALL_QUANTILES: Final = (*QUANTILES, "max")


@dataclass(frozen=True)
class Figure:
    """A chart with what stands above it and what its colours mean."""

    title: str
    about: str
    chart: Markup
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what is shown, what it is sorted by, and what is shown when pointed at."""

    text: str
    key: float | str | None = None
    more: str = ""


@dataclass(frozen=True)
class Table:
    """A table that can be sorted; the first `left` columns hold text. `rest` stays at the end."""

    title: str
    heads: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    left: int = 1
    rest: Sequence[Cell] = ()
    note: str = ""


def html(
    found: ReportFacts | None,
    sentences: Sequence[str],
    source: str,
    since: int | None = None,
    until: int | None = None,
) -> str:
    """The page; `found` is None when there was no message."""
    style, script = _asset("page.css"), _asset("page.js")
    return render(
        "page.html.j2",
        policy=f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        source=source,
        made=units.instant(round(datetime.now(UTC).timestamp() * 1000)),
        asked=_asked(since, until),
        version=__version__,
        sentences=sentences,
        tiles=() if found is None else tuple(_tiles(found)),
        figures=() if found is None else tuple(_overview(found)),
        queues=() if found is None else tuple(_queues(found)),
        tables=() if found is None else tuple(_tables(found)),
    )


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asked(since: int | None, until: int | None) -> str:
    if since is None and until is None:
        return "all there is"
    begun = "the beginning" if since is None else f"{units.instant(since)} UTC"
    return f"{begun} to {'the end' if until is None else f'{units.instant(until)} UTC'}"


# --- figures --------------------------------------------------------------------------------------


def _tiles(found: ReportFacts) -> Iterator[tuple[str, str, str]]:
    """The figures on top: a name, a number, and a line below it."""
    total = found.total
    messages = total["messages"]
    _, rate = summary.busiest(found)
    yield "Messages", units.count(messages), f"at most {units.rate(rate)}"
    yield "Done", units.share(total["done"] / messages), f"{total['dead']:,} dead"
    yield "Waited", units.duration(total["wait_p50_ms"]), _at_most(total, "wait")
    yield "Handling", units.duration(total["handle_p50_ms"]), _at_most(total, "handle")
    yield (
        "Attempts each",
        f"{total['attempts'] / messages:.2f}",
        f"{total['failures']:,} failed, {total['crashes']:,} ran out",
    )


def _at_most(row: Row, time: str) -> str:
    if row[f"{time}_p99_ms"] is None:
        return "never leased"
    return f"p50; p99 {units.duration(row[f'{time}_p99_ms'])}"


def _overview(found: ReportFacts) -> Iterator[Figure]:
    if len(found.queues) < 2:
        return
    yield _ended(found, "All queues", found.all_steps)
    leased = [row for row in found.queues if row["leased"]]
    slow = sorted(leased, key=lambda row: -row["wait_p99_ms"])[: 2 * facts.CHANNELS_DRAWN]
    yield Figure(
        "Waiting by queue",
        "p50, p90, p99; the longest first",
        _waits("Waiting by queue", {summary.queue_name(row): row for row in slow}),
    )


def _queues(found: ReportFacts) -> Iterator[Mapping[str, Any]]:
    for row in found.drawn:
        name = row["namespace"], row["queue"]
        fair = found.fair[name]
        yield {
            "name": summary.queue_name(row),
            "about": _about(row, fair),
            "figures": [
                *_over_time(found, summary.queue_name(row), found.steps[name]),
                *(_of_channels(found, row) if fair["channels"] > 1 else ()),
            ],
        }


def _about(row: Row, fair: Row) -> str:
    plural = "" if fair["channels"] == 1 else "s"
    parts = [f"{row['messages']:,} messages of {fair['channels']:,} channel{plural}"]
    if row["leased"]:
        parts.append(
            f"waiting {units.duration(row['wait_p50_ms'])} (p50) to "
            f"{units.duration(row['wait_p99_ms'])} (p99)"
        )
    if fair["channels"] > 1 and fair["slowest_wait_mean_ms"] is not None:
        parts.append(
            f"longest {summary.channel_name(fair['slowest'])}, "
            f"{units.duration(fair['slowest_wait_mean_ms'])} on average"
        )
    return "; ".join(parts) + "."


def _ended(found: ReportFacts, whose: str, steps: Sequence[Row]) -> Figure:
    starts, rows = _by_start(found, steps)
    each = units.span(found.step_ms)
    used = [name for name in STACKED if any(row and row[name] for row in rows)]
    return Figure(
        "Messages that ended",
        f"per {each}, by how",
        charts.stacks(
            f"{whose}: messages that ended per {each}, by outcome",
            starts,
            found.step_ms,
            [Series(name, name, [row[name] if row else 0 for row in rows]) for name in used],
        ),
        [(name, name) for name in used],
    )


def _by_start(found: ReportFacts, steps: Sequence[Row]) -> tuple[list[int], list[Row | None]]:
    """All steps of the time, and what there is in each."""
    starts = _starts(found, found.step_ms)
    by_start = {ms(row["at"]): row for row in steps}
    return starts, [by_start.get(start) for start in starts]


def _over_time(found: ReportFacts, whose: str, steps: Sequence[Row]) -> Iterator[Figure]:
    yield _ended(found, whose, steps)
    starts, rows = _by_start(found, steps)
    each = units.span(found.step_ms)
    for time, title, about in (
        ("wait", "Waiting", "from being sent to the last lease"),
        ("handle", "Handling", "from the last lease to the end"),
    ):
        values = [
            None
            if row is None or row[f"{time}_max_ms"] is None
            else [row[f"{time}_{name}_ms"] for name in ALL_QUANTILES]
            for row in rows
        ]
        yield Figure(
            title,
            f"{about}, per {each}",
            charts.bands(
                f"{whose}: {title.lower()}, quantiles per {each}",
                starts,
                found.step_ms,
                Band(ALL_QUANTILES, values),
            ),
            [(f"l{n}", name) for n, name in enumerate(ALL_QUANTILES)],
        )


def _of_channels(found: ReportFacts, queue: Row) -> Iterator[Figure]:
    name = queue["namespace"], queue["queue"]
    whose = summary.queue_name(queue)
    starts = _starts(found, found.coarse_ms)
    each = units.span(found.coarse_ms)
    fair = {ms(row["at"]): row for row in found.coarse_fair.get(name, ())}
    competing = {at: row for at, row in fair.items() if row["channels"] > 1}

    def index(name: str) -> list[float | None]:
        return [competing[at][name] if at in competing else None for at in starts]

    yield Figure(
        "Fairness",
        f"Jain’s index over channels per {each}; 1 is equal",
        charts.lines(
            f"{whose}: Jain's index of mean waiting and of messages done, per {each}",
            starts,
            found.coarse_ms,
            [
                Series("mean waiting", "jain-wait", index("jain_wait")),
                Series("messages done", "jain-done", index("jain_done")),
            ],
        ),
        [("jain-wait", "mean waiting"), ("jain-done", "messages done")],
    )
    timed = [row for row in found.timed.get(name, ()) if row["leased"]]
    slow = _first(timed, "slow")
    yield Figure(
        "Longest waits",
        "the channels with the longest mean wait: p50, p90, p99",
        _waits(
            f"{whose}: waiting of the slowest channels",
            {summary.channel_name(row["channel"]): row for row in slow},
        ),
    )
    busy = _first(timed, "busy")
    cells = {(r["channel"], ms(r["at"])): r["wait_mean_ms"] for r in found.heat.get(name, ())}
    yield Figure(
        "Waiting by channel and time",
        f"mean waiting of the busiest channels, per {each}",
        charts.heat_map(
            f"{whose}: mean waiting by channel, per {each}",
            starts,
            found.coarse_ms,
            [
                ChartRow(
                    summary.channel_name(row["channel"]),
                    [cells.get((row["channel"], start)) for start in starts],
                )
                for row in busy
            ],
        ),
    )


def _waits(told: str, rows: Mapping[str, Row]) -> Markup:
    """Quantiles by name, from half of the messages to nearly all."""
    ranges = [
        ChartRow(name, [row[f"wait_{quantile}_ms"] for quantile in QUANTILES])
        for name, row in rows.items()
    ]
    return charts.ranges(f"{told}, p50 to p99", ranges, QUANTILES)


def _first(channels: Sequence[Row], place: str) -> list[Row]:
    """The busiest channels, or those that waited longest, in order."""
    chosen = [row for row in channels if row[place] <= facts.CHANNELS_DRAWN]
    return sorted(chosen, key=lambda row: row[place])


def _starts(found: ReportFacts, step_ms: int) -> list[int]:
    first = found.first_ms // step_ms * step_ms
    return list(range(first, max(found.until_ms, first + 1), step_ms))


# --- tables ---------------------------------------------------------------------------------------


def _tables(found: ReportFacts) -> Iterator[Table]:
    yield _table_of_queues(found)
    yield _table_of_channels(found)
    if found.kinds:
        yield _table_of_failures(found)


COUNTED: Final = {
    "messages": "messages that ended",
    **dict.fromkeys(OUTCOMES, ""),
    "attempts": "deliveries",
    "failures": "attempts that failed",
    "crashes": "leases that ran out",
}
TIMED: Final = {
    "wait_p50": ("wait p50", "half waited no longer than this"),
    "wait_p90": ("p90", "one in ten waited longer"),
    "wait_p99": ("p99", "one in a hundred waited longer"),
    "wait_max": ("max", "the longest wait"),
    "handle_p50": ("handling p50", "half took no longer than this"),
    "handle_p99": ("p99", "one in a hundred took longer"),
}
MEASURES: Final = (*COUNTED.items(), *TIMED.values())


def _measures(row: Mapping[str, Any]) -> list[Cell]:
    cells = [Cell(units.count(row[name]), row[name]) for name in COUNTED]
    for name in TIMED:
        value = row.get(f"{name}_ms")
        cells.append(Cell(units.duration(value), -1 if value is None else value))
    return cells


def _table_of_queues(found: ReportFacts) -> Table:
    shown = found.queues[:LISTED]
    rows: list[list[Cell]] = []
    for row in shown:
        fair = found.fair[row["namespace"], row["queue"]]
        indexes = _index(fair["jain_wait"]), _index(fair["jain_done"])
        rows.append([_text(summary.queue_name(row)), *_measures(row), *indexes])
    return Table(
        "Queues",
        (
            ("queue", ""),
            *MEASURES,
            ("fair wait", "Jain’s index of the channels’ mean waiting"),
            ("fair share", "Jain’s index of the messages done by channel"),
        ),
        rows,
        rest=_rest(found, shown, len(found.queues), ("queue",), after=2),
    )


LISTED: Final = 100


def _table_of_channels(found: ReportFacts) -> Table:
    rows = [
        [
            _text(summary.channel_name(row["channel"])),
            _text(summary.queue_name(row)),
            *_measures(row),
        ]
        for row in found.channels
    ]
    rest = _rest(found, found.channels, found.channel_count, ("channel", ""))
    return Table(
        "Channels",
        (("channel", ""), ("queue", ""), *MEASURES),
        rows,
        left=2,
        rest=rest,
        note="The busiest first." if rest else "",
    )


def _table_of_failures(found: ReportFacts) -> Table:
    rows = [
        [
            Cell(row["error"] or summary.NO_ERROR, row["error"], _example(row)),
            _text(summary.queue_name(row)),
            *(Cell(units.count(row[name]), row[name]) for name in ("messages", "dead", "channels")),
            *(Cell(units.instant(ms(row[n])), ms(row[n])) for n in ("first_at", "last_at")),
        ]
        for row in found.kinds
    ]
    others = found.kind_count - len(rows)
    return Table(
        "Failures",
        (
            ("error", "numbers, ids and digests left out"),
            ("queue", ""),
            ("messages", ""),
            ("dead", "of them"),
            ("channels", ""),
            ("first", "the first of them that ended, in UTC"),
            ("last", ""),
        ),
        rows,
        left=2,
        note="Errors of one kind together, with # for what differs; open one for an example."
        + (f" {others:,} more kinds are in failures.parquet." if others else ""),
    )


def _example(row: Row) -> str:
    return f"message {row['example_id']}: {row['example']}" if row["example"] else ""


def _rest(
    found: ReportFacts, rows: Sequence[Row], count: int, left: Sequence[str], after: int = 0
) -> list[Cell]:
    """The last row: how many more than `rows` there are of `left[0]`, and what they come to."""
    others = count - len(rows)
    if not others:
        return []
    noun, *blank = left
    sums = {name: found.total[name] - sum(row[name] for row in rows) for name in COUNTED}
    head = f"{others:,} other {noun}{'' if others == 1 else 's'}"
    return [Cell(head), *map(Cell, blank), *_measures(sums), *[Cell("–")] * after]


def _text(text: str) -> Cell:
    return Cell(text, text)


def _index(value: float | None) -> Cell:
    return Cell("–", -1) if value is None else Cell(f"{value:.3f}", value)
