"""Schedules in the model: when each is due next, what is sent for it, and what is left out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tests.conformance.model_rows import Queue
from tests.conformance.model_sends import REPLACED, SUPPRESSED
from turnabout import Outgoing, Sent
from turnabout.words.outcomes import QueueFull
from turnabout.words.schedules import Schedule, ScheduledMessage, ScheduleEntry
from turnabout.words.value import replace

LATE_MS = 60_000
"""What `missed="skip"` drops is older."""
STEPS_MAX = 100
"""So many due times of one schedule are made good by one look; the next look goes on."""


@dataclass
class Row:
    """A schedule as it is kept."""

    schedule: Schedule
    next_at: int | None
    last_at: int | None = None
    last_id: int | None = None
    sent: int = 0
    refused: int = 0


class Schedules:
    """The part of the model that sends at given times; only intervals and one-offs."""

    clock: Callable[[], int]
    queues: dict[str, Queue]
    schedules: dict[str, Row]
    refusals: Callable[[str, Sequence[Outgoing]], tuple[list[Any], QueueFull | None]]
    sent: Callable[[str, Sequence[Outgoing], Sent], Any]
    _fates: Callable[[Queue, Sequence[Outgoing]], list[str]]

    def set_schedule(self, schedule: Schedule, *, keeps_pause: bool) -> None:
        row = self.schedules.get(schedule.name)
        if row is None:
            self.schedules[schedule.name] = Row(schedule, self._first(schedule, None))
            return
        if keeps_pause:
            schedule = replace(schedule, paused=row.schedule.paused)
        row.next_at = self._first(schedule, row)
        row.schedule = schedule

    def _first(self, schedule: Schedule, before: Row | None) -> int | None:
        """A due time that is being missed is not forgotten, and none comes twice."""
        if schedule.at is not None:
            was_sent = before is not None and (before.last_at or 0) >= schedule.at
            return None if was_sent else schedule.at
        if before is not None and _times(before.schedule) == _times(schedule):
            is_missed = before.next_at is not None and before.next_at <= self.clock()
            if is_missed:
                return before.next_at
        return _after(schedule, self.clock())

    def pause_schedule(self, name: str, *, paused: bool) -> None:
        row = self.schedules[name]
        row.schedule = replace(row.schedule, paused=paused)

    def due(self) -> list[str]:
        """Names of what is due, what is due longest first."""
        now = self.clock()
        found = [
            (row.next_at, name)
            for name, row in self.schedules.items()
            if row.next_at is not None and row.next_at <= now and not row.schedule.paused
        ]
        return [name for _, name in sorted(found)]

    def fired(self, sent: Sequence[ScheduledMessage]) -> int:
        """What was due was fired, up to a bound, and this was sent; how many were left out."""
        left, skipped = iter(sent), 0
        for name in self.due():
            row = self.schedules[name]
            for due_at, next_at, is_wanted in islice(self._steps(row), STEPS_MAX):
                ours = is_wanted and self._send(row, due_at, left)
                skipped += not ours
                row.next_at = next_at
        assert next(left, None) is None, "sent more than was due"
        return skipped

    def _steps(self, row: Row) -> Iterator[tuple[int, int | None, bool]]:
        """Due times that have come: which, what is next, and whether it is to be sent."""
        now, schedule = self.clock(), row.schedule
        while row.next_at is not None and row.next_at <= now:
            due_at = row.next_at
            if schedule.missed == "skip" and due_at < now - LATE_MS:
                yield due_at, _after(schedule, now - LATE_MS - 1), False
            elif schedule.missed == "once":
                yield due_at, _after(schedule, now), True
            else:
                yield due_at, _after(schedule, due_at), True

    def _send(self, row: Row, due_at: int, sent: Iterator[ScheduledMessage]) -> bool:
        """Whether it was sent: not where the last one still runs, or where there is no room."""
        schedule = row.schedule
        queue, message = self.queues[schedule.queue], schedule.message
        if schedule.overlap == "skip" and row.last_id in queue.messages:
            return False
        channels, full = self.refusals(queue.name, [message])
        if channels or full is not None:
            row.refused += 1
            return False
        told = next(sent, None)
        assert told is not None, f"nothing was sent for {schedule.name} at {due_at}"
        assert (told.schedule, told.queue, told.due_at) == (schedule.name, queue.name, due_at)
        (fate,) = self._fates(queue, [message])
        place = {SUPPRESSED: "duplicates", REPLACED: "replaced"}.get(fate)
        self.sent(queue.name, [message], Sent((told.id,), **({place: (0,)} if place else {})))
        row.last_at, row.last_id, row.sent = due_at, told.id, row.sent + 1
        return True

    def compare_schedules(self, entries: Sequence[ScheduleEntry]) -> None:
        """What `list` says is what there is."""
        assert [entry.schedule.name for entry in entries] == sorted(self.schedules)
        for entry in entries:
            row = self.schedules[entry.schedule.name]
            theirs = (entry.schedule, entry.next_at, entry.last_at, entry.last_id, entry.sent)
            assert theirs == (row.schedule, row.next_at, row.last_at, row.last_id, row.sent)
            assert entry.refused == row.refused
            assert entry.is_due == (entry.schedule.name in self.due())


def _times(schedule: Schedule) -> tuple[Any, ...]:
    return schedule.every_ms, schedule.anchor, schedule.at


def _after(schedule: Schedule, instant: int) -> int | None:
    """The first due time after that instant."""
    if schedule.at is not None:
        return schedule.at if schedule.at > instant else None
    assert schedule.every_ms is not None
    times = max(0, (instant - schedule.anchor) // schedule.every_ms + 1)
    return schedule.anchor + times * schedule.every_ms
