"""The page: one HTML file that needs nothing else, and runs nothing.

Jinja2 escapes whatever comes from a queue. A policy in the page allows its own style by its digest,
no script and no address at all.
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
from turnabout.pipeline.reports import charts, summary, units
from turnabout.pipeline.reports.charts import Series
from turnabout.pipeline.reports.facts import LEAST, ReportFacts, Row
from turnabout.pipeline.reports.templates import render

STACKED: Final = ("done", "expired", "cancelled", "dead")
"""Outcomes from the bottom up: bad ones are on top, where they are seen."""

QUANTILES: Final = ("p50", "p90", "p99")
LISTED: Final = 100
CHANNELS_DRAWN: Final = 7
"""Bars of the lowest shares: they are as high as the other charts."""


@dataclass(frozen=True)
class Figure:
    """A chart with what stands above it and what its colours mean."""

    title: str
    about: str
    chart: Markup
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Table:
    """A table; the first `left` columns hold text. A cell may be a pair: what opens, and more."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, str]]]
    left: int = 1
    note: str = ""


def html(found: ReportFacts | None, sentences: Sequence[str], about: str) -> str:
    """The page; `found` is None when there was no message."""
    style = _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return render(
        "page.html.j2",
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        style=style,
        about=about,
        made=units.instant(round(datetime.now(UTC).timestamp() * 1000)),
        version=__version__,
        sentences=sentences,
        least=LEAST,
        queues=() if found is None else tuple(_queues(found)),
        tables=() if found is None else tuple(_tables(found)),
    )


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def period(since: int | None, until: int | None) -> str:
    """The time that was asked for."""
    if since is None and until is None:
        return "all there is"
    begun = "the beginning" if since is None else f"{units.instant(since)} UTC"
    return f"{begun} to {'the end' if until is None else f'{units.instant(until)} UTC'}"


# --- figures --------------------------------------------------------------------------------------


def _queues(found: ReportFacts) -> Iterator[Mapping[str, Any]]:
    for row in found.drawn:
        name, whose = (row["namespace"], row["queue"]), summary.queue_name(row)
        figures = [*_over_time(found, whose, found.steps.get(name, ()))]
        if name in found.shares:
            figures.append(_shares(whose, found.shares[name]))
        yield {"name": whose, "figures": figures}


def _over_time(found: ReportFacts, whose: str, steps: Sequence[Row]) -> Iterator[Figure]:
    first = found.first_ms // found.step_ms * found.step_ms
    starts = list(range(first, max(found.until_ms, first + 1), found.step_ms))
    by_start = {row["begun"]: row for row in steps}
    rows = [by_start.get(start) for start in starts]
    each = units.span(found.step_ms)
    used = [name for name in STACKED if any(row and row[name] for row in rows)]
    yield Figure(
        "Messages that ended",
        f"per {each}",
        charts.stacks(
            f"{whose}: messages that ended per {each}, by outcome",
            starts,
            found.step_ms,
            [Series(name, [row[name] if row else 0 for row in rows]) for name in used],
        ),
        [(name, name) for name in used],
    )
    values = [
        [row[f"wait_{name}_ms"] for name in QUANTILES]
        if row is not None and row["wait_p50_ms"] is not None
        else None
        for row in rows
    ]
    yield Figure(
        "Waiting",
        f"to the first lease, of messages that ended in the {each}",
        charts.bands(f"{whose}: waiting per {each}", starts, found.step_ms, QUANTILES, values),
        [(f"l{n}", name) for n, name in enumerate(QUANTILES)],
    )


def _shares(whose: str, rows: Sequence[Row]) -> Figure:
    lowest = [
        (
            summary.channel_name(row["channel"]),
            row["ratio"],
            (
                f"{summary.channel_name(row['channel'])}: got {units.count(row['got'])}, fair "
                f"{units.count(row['fair'])}; its first message waited up to "
                f"{units.duration(row['waited_ms'])} while others were served"
            ),
        )
        for row in rows[:CHANNELS_DRAWN]
    ]
    return Figure(
        "Fairness",
        f"service against fair share, the lowest of {len(rows):,} channels"
        if len(rows) > CHANNELS_DRAWN
        else "each channel’s service against its fair share",
        charts.shares(f"{whose}: service of channels against their fair share", lowest),
    )


# --- tables ---------------------------------------------------------------------------------------

MEASURES: Final = (
    *("messages", "done", "dead", "other", "crashes", "retried"),
    *("wait p50", "p90", "p99", "handling p50", "p99", "fair"),
)


def _measures(row: Row, ratio: float | None) -> list[str]:
    counts = (
        *(row["messages"], row["done"], row["dead"], row["cancelled"] + row["expired"]),
        *(row["crashes"], row["retried"]),
    )
    times = ("wait_p50", "wait_p90", "wait_p99", "handle_p50", "handle_p99")
    durations = [units.duration(row[f"{name}_ms"]) for name in times]
    return [*map(units.count, counts), *durations, units.share(ratio)]


def _tables(found: ReportFacts) -> Iterator[Table]:
    many = len(found.queues) > 1
    yield Table(
        "Queues",
        ("queue", *MEASURES),
        [
            [summary.queue_name(row), *_measures(row, row["fairness"])]
            for row in found.queues[:LISTED]
        ],
        note=_rest(len(found.queues), LISTED, "queues", "hours"),
    )
    yield Table(
        "Channels",
        ("channel", *(("queue",) if many else ()), *MEASURES),
        [
            [
                summary.channel_name(row["channel"]),
                *((summary.queue_name(row),) if many else ()),
                *_measures(row, row["ratio"]),
            ]
            for row in found.channels
        ],
        left=1 + many,
        note=_rest(found.channel_count, len(found.channels), "channels", "hours"),
    )
    if found.kinds:
        yield Table(
            "Failures",
            ("error", "queue", "messages", "dead", "channels", "first", "last"),
            [_failure(row) for row in found.kinds],
            left=2,
            note="Errors of one kind together, with # for what differs; open one for an example. "
            + _rest(found.kind_count, len(found.kinds), "kinds", "failures"),
        )


def _failure(row: Row) -> list[str | tuple[str, str]]:
    error = row["error"] or summary.NO_ERROR
    example = f"message {row['example_id']}: {row['example']}"
    return [
        (error, example) if row["example"] else error,
        summary.queue_name(row),
        *(units.count(row[name]) for name in ("messages", "dead", "channels")),
        *(units.instant(round(row[n].timestamp() * 1000)) for n in ("first_at", "last_at")),
    ]


def _rest(count: int, shown: int, noun: str, file: str) -> str:
    if count <= shown:
        return ""
    return f"The first {shown:,} of {count:,} {noun}; all are in {file}.parquet."
