"""The findings in sentences, as a reader of all the charts would say them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turnabout.pipeline.reports.charts import units

if TYPE_CHECKING:
    from turnabout.pipeline.reports.facts import ReportFacts, Row

NONE = "No message ended in this time."
DEFAULT_CHANNEL = "(default)"
NO_ERROR = "(no error was told)"
UNFAIR_BELOW = 0.8


def sentences(found: ReportFacts | None) -> Iterator[str]:
    """The summary, from what matters most to what matters least."""
    if found is None:
        yield NONE
        return
    total = found.total
    yield _ended(found, total)
    if total["leased"]:
        yield (
            f"Half of them waited no longer than {units.duration(total['wait_p50_ms'])}, one in a "
            f"hundred longer than {units.duration(total['wait_p99_ms'])}; the longest wait was "
            f"{units.duration(total['wait_max_ms'])}."
        )
        yield (
            f"The median handling time was {units.duration(total['handle_p50_ms'])}; one in "
            f"a hundred took {units.duration(total['handle_p99_ms'])} or more."
        )
    else:
        yield "None of them was ever leased."
    yield from _slowest(found)
    yield from _fair(found)
    yield _failed(found, total)
    yield _busiest(found)


def queue_name(row: Row) -> str:
    """A queue with its namespace."""
    return f"{row['namespace']}/{row['queue']}" if row["namespace"] else str(row["queue"])


def channel_name(name: str) -> str:
    """A channel as people see it; the default one has no name."""
    return name or DEFAULT_CHANNEL


def busiest(found: ReportFacts) -> tuple[Row, float]:
    """The step with most messages, and how many a second that is."""
    row = max(found.all_steps, key=lambda row: row["messages"])
    # A report of a minute may have one step of an hour: only its own time counts, but a second at
    # least, or the only message of a report would be a thousand a second.
    length = min(found.step_ms, found.until_ms - found.first_ms)
    return row, row["messages"] / max(length, 1000) * 1000


def _ended(found: ReportFacts, total: Row) -> str:
    parts = [
        f"{units.share(total[name] / total['messages'])} {name}"
        for name in ("done", "dead", "cancelled", "expired")
        if total[name]
    ]
    many = _plural(total["messages"], "message")
    of = f"{_plural(len(found.queues), 'queue')} and {_plural(found.channel_count, 'channel')}"
    is_short = found.until_ms - found.first_ms < 10 * units.MINUTE
    begun = units.instant(found.first_ms, seconds=is_short)
    return (
        f"From {begun} to {units.instant(found.until_ms, seconds=is_short)} UTC, {many} of {of} "
        f"ended: {', '.join(parts)}."
    )


def _slowest(found: ReportFacts) -> Iterator[str]:
    if found.channel_count < 2 or not found.total["leased"]:
        return
    rows = [row for row in found.fair.values() if row["slowest_wait_mean_ms"] is not None]
    row = max(rows, key=lambda row: row["slowest_wait_mean_ms"])
    yield (
        f"The slowest channel, {channel_name(row['slowest'])} of {queue_name(row)}, waited "
        f"{units.duration(row['slowest_wait_mean_ms'])} on average; the average of all messages "
        f"is {units.duration(found.total['wait_mean_ms'])}."
    )


def _fair(found: ReportFacts) -> Iterator[str]:
    rows = [
        row for row in found.fair.values() if row["channels"] > 1 and row["jain_wait"] is not None
    ]
    if not rows:
        return
    row = min(rows, key=lambda row: row["jain_wait"])
    index = row["jain_wait"]
    said = "channels waited unequally" if index < UNFAIR_BELOW else "channels waited alike"
    where = "" if len(found.queues) == 1 else f" Least equal is {queue_name(row)}:"
    yield (
        (
            f"{where} {said} (Jain's index of the mean wait {index:.2f} over "
            f"{row['channels']:,} channels, 1 being equal)."
        )
        .strip()
        .replace("channels waited", "Channels waited", 0 if where else 1)
    )


def _failed(found: ReportFacts, total: Row) -> str:
    if not found.kinds:
        return "Nothing failed."
    worst = found.kinds[0]
    dead = _plural(total["dead"], "message")
    error = worst["error"] or NO_ERROR
    return (
        f"{dead} died, {_plural(total['failures'], 'attempt')} failed and "
        f"{_plural(total['crashes'], 'lease')} ran out; the commonest error is “{error}” "
        f"({_plural(worst['messages'], 'message')} of {queue_name(worst)})."
    )


def _busiest(found: ReportFacts) -> str:
    from turnabout.pipeline.reports.facts import ms

    row, rate = busiest(found)
    return (
        f"The busiest {units.span(found.step_ms)}: {units.step(ms(row['at']), found.step_ms)} UTC, "
        f"with {_plural(row['messages'], 'message')} ({units.rate(rate)})."
    )


def _plural(number: Any, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
