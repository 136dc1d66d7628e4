"""Schedules: messages sent at given times. Frozen values; `timing` computes due times.

Instants are milliseconds since 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.value import Value
from turnabout.words.verb import QueueName, ScheduleName

if TYPE_CHECKING:
    from datetime import datetime  # slow to load

Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip"]
Gap = Literal["after", "skip"]
Fold = Literal["first", "both"]

EVERY_MS_MIN = 1_000
CRON_CHARS_MAX = 255


class Schedule(Value):
    """One of `cron`, `every_ms` (counted from `anchor`) or `at` says when `message` is sent."""

    name: ScheduleName
    queue: QueueName
    message: Outgoing
    cron: str | None = None
    zone: str = "UTC"
    every_ms: int | None = None
    anchor: int = 0
    at: int | None = None
    missed: Missed = "once"
    overlap: Overlap = "allow"
    gap: Gap = "after"
    fold: Fold = "first"
    paused: bool = False

    def __post_init__(self) -> None:
        limits.queue_name(self.name)
        limits.queue_name(self.queue)
        if [self.cron, self.every_ms, self.at].count(None) != 2:
            raise UsageError("a schedule has one of cron, every and at")
        if self.cron is not None and len(limits.utf8(self.cron, "cron")) > CRON_CHARS_MAX:
            raise UsageError(f"a cron expression has at most {CRON_CHARS_MAX} bytes")
        limits.utf8(self.zone, "zone")
        limits.optional_whole(
            self.every_ms, "every_ms", EVERY_MS_MIN, limits.DELAY_SECONDS_MAX * 1000
        )
        limits.whole(self.anchor, "anchor", 0, limits.FOREVER_MS)
        limits.optional_whole(self.at, "at", 0, limits.FOREVER_MS)
        limits.choice(self.missed, "missed", get_args(Missed))
        limits.choice(self.overlap, "overlap", get_args(Overlap))
        limits.choice(self.gap, "gap", get_args(Gap))
        limits.choice(self.fold, "fold", get_args(Fold))
        if self.message.due_at is not None:
            raise UsageError("a schedule says when its messages are due: leave due_at out")
        limits.flag(self.paused, "paused")
        marks = {"schedule": self.name, "due-at": str(limits.FOREVER_MS)}  # each message has them
        limits.headers({**(self.message.headers or {}), **marks})


TIMING = tuple(name for name in Schedule.__struct_fields__ if name != "message")
"""Columns of a schedule: all but its message."""


def row_of(schedule: Schedule) -> dict[str, Any]:
    """A schedule as stores keep it. `template`: its message's fields without the payload."""
    message = schedule.message
    fields = {name: getattr(message, name) for name in Outgoing.__struct_fields__}
    template = {**fields, "headers": message.headers and dict(message.headers)}
    row = {name: getattr(schedule, name) for name in TIMING}
    return {**row, "payload": template.pop("payload"), "template": template}


class ScheduledMessage(Value):
    """A message that a schedule has sent for a due time."""

    schedule: str
    queue: str
    due_at: int
    id: int


class ScheduleEntry(Value):
    """A schedule as it is kept. `next_at` None: it has nothing more to send."""

    schedule: Schedule
    next_at: int | None
    last_at: int | None
    """The due time of the last message sent."""
    last_id: int | None
    sent: int
    now: int
    """The database's clock when this was read."""
    refused: int = 0
    """Due times for whose messages there was no room."""

    @property
    def kept_bytes(self) -> int:
        """Size of the payload."""
        return len(self.schedule.message.payload)

    @property
    def is_due(self) -> bool:
        """True if it is to be fired now."""
        return self.next_at is not None and self.next_at <= self.now and not self.schedule.paused


def schedule_of(
    name: str,
    queue: str,
    message: Outgoing,
    *,
    every_seconds: float | None,
    at: datetime | int | None,
    anchor: datetime | int,
    **more: Any,
) -> Schedule:
    """A schedule of what a caller gives: every second to every 366 days, instants in any form."""
    most, least = limits.DELAY_SECONDS_MAX, EVERY_MS_MIN / 1000
    if every_seconds is not None:
        more["every_ms"] = limits.milliseconds(every_seconds, "every_seconds", most, least=least)
    if at is not None:
        more["at"] = limits.instant(at, "at")
    return Schedule(name, queue, message, anchor=limits.instant(anchor, "anchor"), **more)
