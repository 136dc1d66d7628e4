"""What has to be reached: the table of goals, as data."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.peers.known import ours
from benchmarks.peers.ours import TurnaboutOnSqliteWithoutHistory, TurnaboutWithoutHistory
from benchmarks.peers.results import Case, Judged, Setting, judge
from benchmarks.records import Target

RAW, PGMQ, LONNY = "raw", "pgmq", "lonnymq"
ARCHIVE = "pgmq-archive"
RAW_SQLITE, HUEY = "raw-sqlite", "huey"
RUNNERS = ("pgqueuer", "procrastinate", "celery", "dramatiq", "saq")
BARE = {
    "PostgreSQL": TurnaboutWithoutHistory.name,
    "SQLite": TurnaboutOnSqliteWithoutHistory.name,
}
"""Ours beside what keeps nothing of messages that ended."""
NAMES = {
    "rate": "messages a second",
    "server_us": "the server's processor time",
    "kept": "of the rate that is kept",
    "p50_ms": "median wait in ms",
    "p99_ms": "99th percentile in ms",
    "waiting_bytes": "bytes a waiting message",
    "logged_bytes": "of them in logged tables",
    "left_bytes": "bytes left after vacuum",
    "wal_bytes": "bytes of WAL a message",
}
UNTIMED = ("waiting_bytes", "logged_bytes", "left_bytes", "wal_bytes")


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of ours, or its ratio to another's, in the cases of a cell that it is meant for."""

    cell: str
    value: float
    other: str | None = None
    measure: str = "rate"
    batch: int | None = None
    clients: int | None = None
    rate: int | None = None
    at_least: bool = True
    bare: bool = False
    """It is meant for ours without history."""

    def fits(self, cell: str, setting: Setting) -> bool:
        """Whether it is meant for that case."""
        wanted = {"batch": self.batch, "clients": self.clients, "rate": self.rate}
        return self.cell == cell and all(
            value is None or getattr(setting, name) == value for name, value in wanted.items()
        )

    def ours(self, setting: Setting) -> str:
        """Which of ours."""
        return BARE[setting.store] if self.bare else ours(self.cell, setting.store)

    def judge(self, case: Case) -> Judged | None:
        """What a case says of it."""
        return judge(
            case,
            Target(self.value, self.at_least),
            ours=self.ours(case.setting),
            other=self.other,
            measure=self.measure,
            timed=self.measure not in UNTIMED,
        )

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        to = f" of {self.other}" if self.other else ""
        to += ", history off" if self.bare else ""
        return f"{NAMES[self.measure]} {sign} {self.value:g}{to}"


def _most(cell: str, value: float, measure: str, **words: int | str | None) -> Goal:
    return Goal(cell, value, measure=measure, at_least=False, **words)  # type: ignore[arg-type]


GOALS: tuple[Goal, ...] = (
    *(
        Goal("receive", 1.1 if n == 1 else 1.0, RAW, batch=1, clients=n, bare=True)
        for n in (1, 4, 8)
    ),
    Goal("receive", 0.75, RAW, batch=1),
    *(
        Goal(cell, value, RAW, batch=batch, bare=True)
        for cell in ("receive", "channels")
        for batch, value in ((10, 0.85), (100, 1.05))
    ),
    Goal("channels", 1.0, RAW, batch=1, bare=True),
    *(Goal(cell, 1.2, PGMQ, bare=True) for cell in ("receive", "channels")),
    *(Goal(cell, 1.2, LONNY, bare=True) for cell in ("receive", "channels")),
    Goal("receive", 1.2, ARCHIVE),
    Goal("durable", 1.5, RAW, bare=True),
    Goal("send", 0.8, RAW),
    Goal("send", 1.1, PGMQ, batch=1),
    *(Goal("tasks", 1.0, runner) for runner in RUNNERS),
    Goal("sqlite-tasks", 1.0, "huey-consumer"),
    Goal("mixed", 0.7, RAW, batch=1, bare=True),
    Goal("mixed", 1.2, PGMQ, batch=1, bare=True),
    Goal("inflight", 0.83, RAW, "kept"),
    Goal("backlog", 0.77, RAW, "kept"),
    Goal("snapshot", 0.8, None, "kept"),
    _most("latency", 5, "p50_ms", rate=10),
    _most("latency", 4, "p50_ms", rate=100),
    _most("latency", 5, "p50_ms", rate=1000),
    _most("latency", 15, "p99_ms"),
    _most("bytes", 310, "waiting_bytes"),
    _most("bytes", 210, "logged_bytes"),
    _most("bytes", 80, "left_bytes"),
    _most("wal", 400, "wal_bytes"),
    *(Goal("sqlite-send", 0.85, HUEY, batch=1, clients=n) for n in (1, 4)),
    *(Goal("sqlite-receive", 1.0, HUEY, batch=1, clients=n, bare=True) for n in (1, 4)),
    Goal("sqlite-send", 0.6, RAW_SQLITE, batch=100),
    Goal("sqlite-receive", 0.7, RAW_SQLITE, batch=100, bare=True),
)
