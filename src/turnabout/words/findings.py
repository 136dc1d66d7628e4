"""A store's doctor: findings as names and numbers. The command line has the words for them.

Both stores ask the same questions of their tables. Here is what the answers mean: which counts must
agree, which must be zero, and how bad it is if they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from turnabout.words.value import Value

Level = Literal["ok", "warn", "fail"]

LEASE_OVERDUE_MS: Final = 600_000
READY_OLD_MS: Final = 3_600_000

PROMISES: Final[Mapping[str, Level]] = {
    "endings": "fail",
    "one ending": "fail",
    "order": "fail",
    "slots": "warn",
    "rates": "warn",
    "bounds": "warn",
    "one lease": "fail",
    "charges": "fail",
    "early": "warn",
    "keys": "fail",
    "cancelled": "fail",
    "expiry": "warn",
    "exhausted": "warn",
    "dead letters": "warn",
    "dedup": "fail",
    "schedules": "warn",
    "redrives": "warn",
    "retention": "warn",
    "events": "warn",
    "inbox": "warn",
    "unlogged tables": "warn",
    "orphans": "warn",
    "entries": "warn",
    "head marks": "warn",
    "days": "warn",
}
"""Questions that count what must not be, and how bad it is if there is one. `fail`: a promise is
broken; `warn`: somebody has to look after something. Each store has statements of its own for
them; the last five are about tables that PostgreSQL alone has,
`inbox` about one of SQLite.
"""


class Finding(Value):
    """The result of one check.

    what   the name of the check, and after a dot, where a check can find several things, which one
    facts  the numbers and names that it found
    """

    what: str
    level: Level
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.what.partition(".")[0]


class QueueCounts(Value):
    """The contents of a queue's tables; every number is read by its own count, in one snapshot."""

    queue: str
    paused: bool
    sent: int
    finished: int
    live: int
    overdue_leases: int
    oldest_ready_ms: int | None


def ok(what: str, **facts: Any) -> Finding:
    """A check that passed."""
    return Finding(what, "ok", facts)


def warn(what: str, **facts: Any) -> Finding:
    """Somebody has to look after it."""
    return Finding(what, "warn", facts)


def fail(what: str, **facts: Any) -> Finding:
    """A failed check: it does not work, or something is broken."""
    return Finding(what, "fail", facts)


def promises(count: Callable[[str], int], asked: Container[str] = PROMISES) -> Iterator[Finding]:
    """The answers to those of the `PROMISES` that can be asked; `count` runs one."""
    for name, level in PROMISES.items():
        if name in asked:
            yield of_zero(name, count(name), level)


def of_zero(name: str, number: int, level: Level = "fail") -> Finding:
    """A count that must be zero."""
    return Finding(name, level if number else "ok", {"number": number})


def of_counts(counts: Iterable[QueueCounts]) -> Iterator[Finding]:
    """P15 for each queue, and what nobody seems to work on."""
    queues = list(counts)
    wrong = [c for c in queues if c.sent != c.finished + c.live]
    for c in wrong:
        facts = {"live": c.live, "finished": c.finished, "kept": c.live + c.finished}
        yield fail("counts", queue=c.queue, sent=c.sent, **facts)
    if not wrong:
        yield ok("counts" if queues else "counts.none", queues=len(queues))
    idle = [c for c in queues if c.overdue_leases]
    for c in idle:
        yield warn("leases", queue=c.queue, number=c.overdue_leases, since_ms=LEASE_OVERDUE_MS)
    if not idle:
        yield ok("leases")
    for c in queues:
        if (c.oldest_ready_ms or 0) > READY_OLD_MS:
            what = "waiting.paused" if c.paused else "waiting"
            yield warn(what, queue=c.queue, age_ms=c.oldest_ready_ms)
