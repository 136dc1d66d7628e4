"""The findings in sentences, as a reader of all the charts would say them. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from turnabout.cli import _show
from turnabout.pipeline.reports import units

if TYPE_CHECKING:
    from turnabout.pipeline.reports.facts import ReportFacts, Row

NONE = "No message ended in this time."
NO_ERROR = "(no error was given)"
FAIR_FROM: Final = 0.8
SLOW: Final = 3
"""A step is slow if its p90 is so many times the median of the steps, and a second more."""
NAMED: Final = 3
"""Slow times, and starved channels, that a sentence names."""


def sentences(found: ReportFacts | None) -> Iterator[str]:
    """The summary, from what matters most to what matters least."""
    if found is None:
        yield NONE
        return
    total, ms = found.total, _show.milliseconds
    yield _ended(found)
    again = _show.plural(total["retried"], "message") if total["retried"] else ""
    uncounted = f" That leaves out {again} leased more than once." if again else ""
    if total["wait_p50_ms"] is not None:
        yield (
            f"Half of them waited no longer than {ms(total['wait_p50_ms'])}, one in a hundred "
            f"longer than {ms(total['wait_p99_ms'])}; the longest wait was "
            f"{ms(total['wait_max_ms'])}.{uncounted}"
        )
    elif again:
        yield f"None was leased just once, so waiting is not known.{uncounted}"
    if total["leased"]:
        yield (
            f"The median handling time was {ms(total['handle_p50_ms'])}; one in a hundred took "
            f"{ms(total['handle_p99_ms'])} or more."
        )
    else:
        yield "None of them was ever leased."
    yield from _slow(found)
    yield from _starved(found)
    yield _failed(found)


def queue_name(row: Row) -> str:
    """A queue with its namespace."""
    return f"{row['namespace']}/{row['queue']}" if row["namespace"] else str(row["queue"])


def _ended(found: ReportFacts) -> str:
    total = found.total
    parts = [
        f"{units.share(total[name] / total['messages'])} {name}"
        for name in ("done", "dead", "cancelled", "expired")
        if total[name]
    ]
    many = _show.plural(total["messages"], "message")
    queues = _show.plural(len(found.queues), "queue")
    of = f"{queues} and {_show.plural(found.channel_count, 'channel')}"
    when = _when(found, found.first_ms, found.until_ms)
    return f"{when}: {many} of {of} ended, {', '.join(parts)}."


def _slow(found: ReportFacts) -> Iterator[str]:
    """A sentence on the times of far longer waits than usual, for the worst queue."""
    worst: tuple[float, str] | None = None
    for steps in found.steps.values():
        known = sorted(
            (row for row in steps if row["wait_p90_ms"] is not None), key=lambda row: row["begun"]
        )
        if len(known) < 4:
            continue
        usual = statistics.median(row["wait_p90_ms"] for row in known)
        limit = max(SLOW * usual, usual + units.SECOND)
        runs = _runs([row for row in known if row["wait_p90_ms"] > limit], found.step_ms)
        runs.sort(key=_longest, reverse=True)
        if runs:
            text = _slow_sentence(found, runs, usual)
            worst = max(worst or (0.0, ""), (_longest(runs[0]) / max(usual, 1), text))
    if worst:
        yield worst[1]


def _slow_sentence(found: ReportFacts, runs: Sequence[Sequence[Row]], usual: float) -> str:
    times = [
        f"{_when(found, run[0]['begun'], run[-1]['begun'] + found.step_ms)} "
        f"({_show.milliseconds(_longest(run))})"
        for run in runs[:NAMED]
    ]
    return (
        f"Waiting in {queue_name(runs[0][0])} was slow at {', '.join(times)}"
        f"{_others(len(runs), 'time')}: the times in brackets are those that one message in ten "
        f"waited longer than, usually {_show.milliseconds(round(usual))}."
    )


def _runs(rows: Sequence[Row], step_ms: int) -> list[list[Row]]:
    """Steps that follow one another."""
    runs = groupby(enumerate(rows), lambda pair: pair[1]["begun"] - pair[0] * step_ms)
    return [[row for _, row in run] for _, run in runs]


def _longest(run: Sequence[Row]) -> int:
    return max(row["wait_p90_ms"] for row in run)


def _starved(found: ReportFacts) -> Iterator[str]:
    if found.starved:
        times = [
            f"{_show.channel(row['channel'])} of {queue_name(row)}, "
            f"{_when(found, row['first_ms'], row['until_ms'])} "
            f"({units.share(row['got'] / row['fair'])} of its fair share)"
            for row in found.starved[:NAMED]
        ]
        others = _others(len(found.starved), "channel")
        waited = max(row["waited_ms"] for row in found.starved)
        longest = (
            f" A first message waited for up to {_show.milliseconds(waited)}." if waited else ""
        )
        yield f"Starved while others were served: {'; '.join(times)}{others}.{longest}"
    elif found.shares:
        least = found.shares[0]
        word = "fairly" if least["ratio"] >= FAIR_FROM else "unequally"
        yield (
            f"Channels were served {word}: the least that one got is "
            f"{units.share(least['ratio'])} of its fair share "
            f"({_show.channel(least['channel'])} of {queue_name(least)})."
        )
    elif found.channel_count > 1:
        yield "No channel had to wait for others for long enough to compare their shares."


def _others(count: int, noun: str) -> str:
    more = count - NAMED
    return f"; and {_show.plural(more, f'other {noun}')}" if more > 0 else ""


def _failed(found: ReportFacts) -> str:
    total, kinds = found.total, found.kinds
    counted = (
        (total["dead"], "message", "died"),
        (total["failures"], "attempt", "failed"),
        (total["crashes"], "lease", "ran out"),
    )
    parts = [f"{_show.plural(number, noun)} {verb}" for number, noun, verb in counted if number]
    if kinds:
        text = f"{', '.join(parts) or 'Some messages had errors'}; the commonest error is "
        many = _show.plural(kinds[0]["messages"], "message")
        return f"{text}“{kinds[0]['error'] or NO_ERROR}” ({many} of {queue_name(kinds[0])})."
    if not parts:
        return "Nothing failed, and no lease ran out."
    if not total["dead"] and not total["failures"]:
        return f"No attempt failed, but {parts[0]}: workers crashed, or took too long."
    return f"{', '.join(parts)}."


def _when(found: ReportFacts, begin: int, end: int) -> str:
    """A time, with seconds in a short report."""
    seconds = found.until_ms - found.first_ms < 10 * units.MINUTE
    return f"{units.between(begin, end, seconds=seconds)} UTC"
