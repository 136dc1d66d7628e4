"""The page: one HTML file that needs nothing else, and runs nothing.

Jinja2 escapes whatever comes from a queue. A policy in the page allows its own style by its digest,
no script and no address at all.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from turnabout import __version__
from turnabout.cli import _show
from turnabout.pipeline.reports import charts, summary, units
from turnabout.pipeline.reports.facts import LEAST, QUEUES_DRAWN, ReportFacts, Row
from turnabout.words.fairness import STARVED_BELOW

STACKED: Final = ("done", "expired", "cancelled", "dead")
"""Outcomes from the bottom up: bad ones are on top, where they are seen."""

LISTED: Final = 100
SHARES: Final = 10


@dataclass(frozen=True)
class Table:
    """A table; the first `left` columns hold text. A cell may be a pair: what opens, and more."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, str]]]
    left: int = 2
    note: str = ""


def html(found: ReportFacts | None, sentences: Sequence[str], about: str) -> str:
    """The page; `found` is None when there was no message."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return charts.render(
        "page.html.j2",
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        style=style,
        about=about,
        made=units.instant(round(time.time() * 1000)),
        version=__version__,
        sentences=sentences,
        least=LEAST,
        queues=() if found is None else tuple(_queues(found)),
        tables=() if found is None else tuple(_tables(found)),
    )


def _queues(found: ReportFacts) -> Iterator[Mapping[str, Any]]:
    """Two charts of each busy queue, with what stands above them and what their colours mean."""
    each = units.span(found.step_ms)
    first = found.first_ms // found.step_ms * found.step_ms
    starts = range(first, max(found.until_ms, first + 1), found.step_ms)
    for queue in found.queues[:QUEUES_DRAWN]:
        whose, steps = summary.queue_name(queue), found.steps[queue["namespace"], queue["queue"]]
        by_start = {row["begun"]: row for row in steps}
        rows = [by_start.get(start) for start in starts]
        kinds = [kind for kind in STACKED if any(row[kind] for row in steps)]
        ended = charts.stacks(f"{whose}: messages that ended per {each}", starts, rows, kinds)
        waited = charts.quantiles(f"{whose}: waiting per {each}", starts, rows, "wait")
        about = f"to the first lease, of messages that ended in the {each}"
        figures = (
            ("Messages that ended", f"per {each}", ended, kinds),
            ("Waiting", about, waited, charts.QUANTILES),
        )
        yield {"name": whose, "figures": figures}


# --- tables ---------------------------------------------------------------------------------------

MEASURES: Final = (
    *("messages", "done", "dead", "other", "crashes", "retried"),
    *("wait p50", "p90", "p99", "handling p50", "p99"),
)


def _measures(row: Row) -> list[str]:
    other = row["cancelled"] + row["expired"]
    counts = (row["messages"], row["done"], row["dead"], other, row["crashes"], row["retried"])
    times = ("wait_p50", "wait_p90", "wait_p99", "handle_p50", "handle_p99")
    durations = [_show.milliseconds(row[f"{name}_ms"]) for name in times]
    return [*map(_show.count, counts), *durations]


def _share(ratio: float) -> str:
    """A share of what is fair, with a bar whose colours say how it stands."""
    bar = Markup('<meter max="1" low="{}" high="{}" optimum="1" value="{:.3f}"></meter> {}')
    return bar.format(STARVED_BELOW, summary.FAIR_FROM, ratio, units.share(ratio))


def _tables(found: ReportFacts) -> Iterator[Table]:
    yield Table(
        "Queues",
        ("queue", *MEASURES, "fair"),
        [
            [summary.queue_name(row), *_measures(row), units.share(row["fairness"])]
            for row in found.queues[:LISTED]
        ],
        left=1,
        note=_rest(len(found.queues), LISTED, "queues", "hours"),
    )
    if found.shares:
        yield Table(
            "Fairness",
            ("channel", "queue", "got", "fair share", "of it", "first message waited"),
            [[*_whose(row), *_shares(row)] for row in found.shares[:SHARES]],
            note="The channels that got least of their fair share while others were served. "
            + _rest(len(found.shares), SHARES, "channels", "fairness"),
        )
    yield Table(
        "Channels",
        ("channel", "queue", *MEASURES),
        [[*_whose(row), *_measures(row)] for row in found.channels],
        note=_rest(found.channel_count, len(found.channels), "channels", "hours"),
    )
    if found.kinds:
        yield Table(
            "Failures",
            ("error", "queue", "messages", "dead", "channels", "first", "last"),
            [_failure(row) for row in found.kinds],
            note="Errors of one kind together, with # for what differs; open one for an example. "
            + _rest(found.kinds[0]["kinds"], len(found.kinds), "kinds", "failures"),
        )


def _whose(row: Row) -> tuple[str, str]:
    return _show.channel(row["channel"]), summary.queue_name(row)


def _shares(row: Row) -> Iterator[str]:
    yield from map(_show.count, (row["got"], round(row["fair"])))
    yield _share(row["ratio"])
    yield _show.milliseconds(row["waited_ms"])


def _failure(row: Row) -> list[str | tuple[str, str]]:
    error = row["error"] or summary.NO_ERROR
    example = f"message {row['example_id']}: {row['example']}"
    return [
        (error, example) if row["example"] else error,
        summary.queue_name(row),
        *(_show.count(row[name]) for name in ("messages", "dead", "channels")),
        *(units.instant(round(row[n].timestamp() * 1000)) for n in ("first_at", "last_at")),
    ]


def _rest(count: int, shown: int, noun: str, file: str) -> str:
    if count <= shown:
        return ""
    return f"The first {shown:,} of {count:,} {noun}; all are in {file}.parquet."
