"""What a check of `doctor` finds, and the words that all checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from turnabout.cli import _show

Level = Literal["ok", "warn", "fail"]

LEASE_OVERDUE_MS = 600_000
READY_OLD_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `todo` says what to do next, unless all is well."""

    name: str
    level: Level
    text: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one queue's tables hold; every number is read by its own count, in one snapshot."""

    queue: str
    paused: bool
    sent: int
    finished: int
    live: int
    overdue_leases: int
    oldest_ready_ms: int | None


def ok(name: str, text: str) -> Check:
    return Check(name, "ok", text)


def warn(name: str, text: str, todo: str) -> Check:
    return Check(name, "warn", text, todo)


def fail(name: str, text: str, todo: str) -> Check:
    return Check(name, "fail", text, todo)


REPORT = "please report it, with this output: something did what no verb does"


def of_counts(counts: Iterable[Counts]) -> Iterator[Check]:
    """P15 for each queue, and what nobody seems to work on."""
    queues = list(counts)
    wrong = [c for c in queues if c.sent != c.finished + c.live]
    for c in wrong:
        yield fail(
            "counts",
            f"{c.queue}: {c.sent:,} were sent, but {c.live:,} unfinished and {c.finished:,} "
            f"finished make {c.live + c.finished:,}",
            REPORT,
        )
    if not wrong:
        text = f"add up in {_show.plural(len(queues), 'queue')}" if queues else "no queues yet"
        yield ok("counts", text)
    idle = [c for c in queues if c.overdue_leases]
    for c in idle:
        yield warn(
            "leases",
            f"{c.queue}: {_show.plural(c.overdue_leases, 'lease')} ran out more than "
            f"{_show.milliseconds(LEASE_OVERDUE_MS)} ago and nobody took the messages back",
            f"start a worker for {c.queue}: each receive takes such messages back",
        )
    if not idle:
        yield ok("leases", "none ran out long ago")
    old = [c for c in queues if (c.oldest_ready_ms or 0) > READY_OLD_MS]
    for c in old:
        why = "the queue is paused" if c.paused else "is a worker running, is it fast enough?"
        age = _show.milliseconds(c.oldest_ready_ms)
        yield warn(
            "waiting",
            f"{c.queue}: a ready message has waited for {age}",
            f"{why} Look with: turnabout stats {c.queue}",
        )


def of_strays(name: str, number: int, good: str, bad: str) -> Check:
    """A count that must be zero."""
    return ok(name, good) if not number else fail(name, f"{number:,} {bad}", REPORT)


def guarded(name: str, run: Callable[[], Iterable[Check]], errors: type[Exception]) -> list[Check]:
    """The findings of some checks; an error of the database is a finding as well."""
    found: list[Check] = []
    try:
        found.extend(run())
    except errors as error:
        found.append(
            fail(name, f"the check itself failed: {error}", "mend that, then run doctor again")
        )
    return found
