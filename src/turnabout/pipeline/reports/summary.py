"""The findings in sentences, as a reader of all the charts would say them. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from turnabout.pipeline.reports import units

if TYPE_CHECKING:
    from turnabout.pipeline.reports.facts import ReportFacts, Row

NONE = "No message ended in this time."
DEFAULT_CHANNEL = "(default)"
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
    total = found.total
    yield _ended(found, total)
    if total["wait_p50_ms"] is not None:
        yield (
            f"Half of them waited no longer than {units.duration(total['wait_p50_ms'])}, one in a "
            f"hundred longer than {units.duration(total['wait_p99_ms'])}; the longest wait was "
            f"{units.duration(total['wait_max_ms'])}.{_uncounted(total)}"
        )
    elif total["retried"]:
        yield f"None was leased just once, so waiting is not known.{_uncounted(total)}"
    if total["leased"]:
        yield (
            f"The median handling time was {units.duration(total['handle_p50_ms'])}; one in "
            f"a hundred took {units.duration(total['handle_p99_ms'])} or more."
        )
    else:
        yield "None of them was ever leased."
    yield from _slow(found)
    yield from _starved(found)
    yield _failed(found, total)
    yield from _busiest(found)


def queue_name(row: Row) -> str:
    """A queue with its namespace."""
    return f"{row['namespace']}/{row['queue']}" if row["namespace"] else str(row["queue"])


def channel_name(name: str) -> str:
    """A channel as people see it; the default one has no name."""
    return name or DEFAULT_CHANNEL


def _uncounted(total: Row) -> str:
    if not total["retried"]:
        return ""
    many = _plural(total["retried"], "message")
    return f" That leaves out {many} leased more than once."


def _ended(found: ReportFacts, total: Row) -> str:
    parts = [
        f"{units.share(total[name] / total['messages'])} {name}"
        for name in ("done", "dead", "cancelled", "expired")
        if total[name]
    ]
    many = _plural(total["messages"], "message")
    of = f"{_plural(len(found.queues), 'queue')} and {_plural(found.channel_count, 'channel')}"
    when = _when(found, found.first_ms, found.until_ms, between=("From ", " to "))
    return f"{when} UTC, {many} of {of} ended: {', '.join(parts)}."


def _slow(found: ReportFacts) -> Iterator[str]:
    """A sentence on the times of far longer waits than usual, for the worst queue."""
    worst: tuple[float, str] | None = None
    for name, steps in found.steps.items():
        known = sorted(
            (row for row in steps if row["wait_p90_ms"] is not None), key=lambda row: row["begun"]
        )
        if len(known) < 4:
            continue
        usual = statistics.median(row["wait_p90_ms"] for row in known)
        limit = max(SLOW * usual, usual + units.SECOND)
        runs = _runs([row for row in known if row["wait_p90_ms"] > limit], found.step_ms)
        if runs:
            most = max(row["wait_p90_ms"] for run in runs for row in run)
            text = _slow_sentence(found, name, runs, usual)
            worst = max(worst or (0.0, ""), (most / max(usual, 1), text))
    if worst:
        yield worst[1]


def _slow_sentence(
    found: ReportFacts, name: tuple[str, str], runs: Sequence[Sequence[Row]], usual: float
) -> str:
    runs = sorted(runs, key=lambda run: -max(row["wait_p90_ms"] for row in run))
    times = [
        f"{_when(found, run[0]['begun'], run[-1]['begun'] + found.step_ms)} "
        f"({units.duration(max(row['wait_p90_ms'] for row in run))})"
        for run in runs[:NAMED]
    ]
    others = f", and {_plural(len(runs) - NAMED, 'other time')}" if len(runs) > NAMED else ""
    queue = queue_name({"namespace": name[0], "queue": name[1]})
    return (
        f"Waiting in {queue} was slow at {', '.join(times)} UTC{others}: the times in brackets "
        f"are those that one message in ten waited longer than, usually "
        f"{units.duration(usual)}."
    )


def _runs(rows: Sequence[Row], step_ms: int) -> list[list[Row]]:
    """Steps that follow one another."""
    runs = groupby(enumerate(rows), lambda pair: pair[1]["begun"] - pair[0] * step_ms)
    return [[row for _, row in run] for _, run in runs]


def _starved(found: ReportFacts) -> Iterator[str]:
    if found.starved:
        times = [
            f"{channel_name(row['channel'])} of {queue_name(row)}, "
            f"{_when(found, row['first_ms'], row['until_ms'])} UTC "
            f"({units.share(row['got'] / row['fair'])} of its fair share"
            + (
                f", kept waiting for up to {units.duration(row['waited_ms'])})"
                if row["waited_ms"]
                else ")"
            )
            for row in found.starved[:NAMED]
        ]
        more = len(found.starved) - NAMED
        others = f"; and {_plural(more, 'other channel')}" if more > 0 else ""
        yield f"Starved while others were served: {'; '.join(times)}{others}."
        return
    known = [row for row in found.queues if row["fairness"] is not None]
    if known:
        row = min(known, key=lambda row: row["fairness"])
        least = found.shares[row["namespace"], row["queue"]][0]
        word = "fairly" if row["fairness"] >= FAIR_FROM else "unequally"
        yield (
            f"Channels were served {word}: the least that one got is "
            f"{units.share(row['fairness'])} of its fair share "
            f"({channel_name(least['channel'])} of {queue_name(row)})."
        )
    elif found.channel_count > 1:
        yield "No channel had to wait for others for long enough to compare their shares."


def _failed(found: ReportFacts, total: Row) -> str:
    counted = (
        (total["dead"], "message", "died"),
        (total["failures"], "attempt", "failed"),
        (total["crashes"], "lease", "ran out"),
    )
    parts = [f"{_plural(number, noun)} {verb}" for number, noun, verb in counted if number]
    if not parts and not found.kinds:
        return "Nothing failed, and no lease ran out."
    if not total["dead"] and not total["failures"] and not found.kinds:
        return f"No attempt failed, but {parts[0]}: workers crashed, or took too long."
    worst = found.kinds[0] if found.kinds else None
    common = (
        ""
        if worst is None
        else (
            f"; the commonest error is “{worst['error'] or NO_ERROR}” "
            f"({_plural(worst['messages'], 'message')} of {queue_name(worst)})"
        )
    )
    return f"{', '.join(parts) or 'Some messages had errors'}{common}."


def _busiest(found: ReportFacts) -> Iterator[str]:
    """The step with most messages, unless chance makes as much of steps that are alike."""
    counts = [row["messages"] for row in found.all_steps]
    steps = (found.until_ms - found.first_ms) / found.step_ms  # the first and last are parts
    if steps < 3:
        return
    mean = sum(counts) / steps
    # The largest of n alike is that far above their mean by itself; two standard deviations more.
    if max(counts) <= mean + (math.sqrt(2 * math.log(steps)) + 2) * math.sqrt(mean):
        return
    row = max(found.all_steps, key=lambda row: row["messages"])
    yield (
        f"The busiest {units.span(found.step_ms)}: {units.step(row['begun'], found.step_ms)} UTC, "
        f"with {_plural(row['messages'], 'message')}; the average is {mean:,.0f}."
    )


def _when(found: ReportFacts, begin: int, end: int, between: tuple[str, str] = ("", "–")) -> str:
    """A time, with seconds in a short report; the day of its end only if it is another one."""
    seconds = found.until_ms - found.first_ms < 10 * units.MINUTE
    first, last = (units.instant(at, seconds=seconds) for at in (begin, end))
    day = first.rpartition(" ")[0]
    if between[0] == "" and last.startswith(f"{day} "):
        last = last.removeprefix(f"{day} ")
    return f"{between[0]}{first}{between[1]}{last}"


def _plural(number: Any, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
