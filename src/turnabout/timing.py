"""Due times of schedules. Pure: a schedule and instants go in, an instant comes out.

Instants are milliseconds since 1970. Cron expressions are read by `cronsim` (loaded when one is
met), which walks the plain calendar; what a time of that calendar is in its zone, where clocks are
put forward and back, is decided here. `every` and `at` need the standard library only.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.extras import install_hint
from turnabout.words.schedules import Schedule, ScheduleEntry

if TYPE_CHECKING:
    from cronsim import CronSim

LATE_MS = 60_000
"""Age of a due time from which `missed="skip"` drops it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_EVERY_HOUR = frozenset(range(24))
_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Firing:
    """The decision on a due time that has come: send or skip it, then wait for `next_at`."""

    due_at: int
    skip: bool
    next_at: int | None


def next_due(schedule: Schedule, after: int) -> int | None:
    """The first due time later than `after`; None if there is none any more.

    Raises: UsageError for a cron expression or a zone that is none, with what to write.
    """
    if schedule.at is not None:
        return schedule.at if schedule.at > after else None
    if schedule.every_ms is not None:
        if after < schedule.anchor:
            return schedule.anchor
        passed = (after - schedule.anchor) // schedule.every_ms
        return _in_reach(schedule.anchor + (passed + 1) * schedule.every_ms)
    return _next_cron(schedule, after)


def upcoming(schedule: Schedule, after: int) -> Iterator[int]:
    """The due times later than `after`, in order. Most schedules have no last one."""
    due_at = next_due(schedule, after)
    while due_at is not None:
        yield due_at
        due_at = next_due(schedule, due_at)


def first_due(schedule: Schedule, now: int, before: ScheduleEntry | None) -> int | None:
    """The due time that a schedule starts with when it is set, `before` being what it replaces.

    A due time that was missed stays to be made up for if only other things were changed, and none
    comes twice. Raises: UsageError if it would never be due, or says what decides nothing.
    """
    zone_of(schedule.zone)  # also of a schedule for once: its time is shown there
    _refuse_what_decides_nothing(schedule)
    start = next_due(schedule, now)
    if start is None and schedule.at is None:
        raise UsageError(f"{_label(schedule)} is never due: no day of the next fifty years fits it")
    last_at = None if before is None else before.last_at
    if schedule.at is not None:
        return schedule.at if last_at is None or last_at < schedule.at else None
    if (
        before is not None
        and before.next_at is not None
        and before.next_at <= now
        and _times(before.schedule) == _times(schedule)
    ):
        return before.next_at
    return start


def _refuse_what_decides_nothing(schedule: Schedule) -> None:
    """Not where schedules are made, as those that are kept are read by it, too."""
    if schedule.cron is None and (schedule.gap, schedule.fold) != ("after", "first"):
        raise UsageError("gap and fold only apply to cron: leave them out")
    if schedule.every_ms is not None and schedule.zone != "UTC":
        raise UsageError(
            "zone only applies to cron, as an interval is the same in all: leave it out, "
            "or let every_seconds count from an anchor in that zone"
        )
    if schedule.every_ms is None and schedule.anchor:
        raise UsageError("anchor only applies to every_seconds: leave it out")


def firing(schedule: Schedule, due_at: int, now: int) -> Firing:
    """The step that `missed` wants for a due time that has come, at `now`."""
    match schedule.missed:
        case "all":
            return Firing(due_at, skip=False, next_at=next_due(schedule, due_at))
        case "once":
            return Firing(due_at, skip=False, next_at=next_due(schedule, max(due_at, now)))
        case "skip":
            oldest = now - LATE_MS
            if due_at < oldest:
                return Firing(due_at, skip=True, next_at=next_due(schedule, oldest - 1))
            return Firing(due_at, skip=False, next_at=next_due(schedule, due_at))


def firings(entry: ScheduleEntry, now: int, most: int) -> list[Firing]:
    """The steps, in order, to catch up with `now`: at most `most` steps, the rest another time."""
    steps: list[Firing] = []
    due_at, last_at = entry.next_at, entry.last_at
    while due_at is not None and due_at <= now and len(steps) < most:
        if last_at is not None and due_at <= last_at:
            # A `set` that met with a firing has put it back: it was sent.
            step = Firing(due_at, skip=True, next_at=next_due(entry.schedule, last_at))
        else:
            step = firing(entry.schedule, due_at, now)
        steps.append(step)
        due_at = step.next_at
    return steps


def local(at: int, zone: str) -> datetime:
    """The instant as a clock in that zone shows it. Raises: UsageError past the year 9999."""
    try:
        return _at(at, zone_of(zone))
    except OverflowError:
        raise UsageError(f"{at:,} milliseconds since 1970 is past the year 9999") from None


# --- zones ---------------------------------------------------------------------------------------


def zone_of(name: str) -> tzinfo:
    """The time zone of that name, such as `Europe/Berlin`. Raises: UsageError for any other."""
    if name == "UTC":
        return UTC  # needs no files
    if not name.startswith(("posix", "right/", "local", "Factory")):  # differ between machines
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            pass
        if not zoneinfo.available_timezones():
            raise UsageError(
                f"{limits.shown(name)}: this machine has no time zone data: pip install tzdata"
            )
    raise UsageError(
        f"{limits.shown(name)} is not a time zone: use a name such as 'Europe/Berlin' or 'UTC'"
    )


def _at(instant: int, zone: tzinfo) -> datetime:
    return (_EPOCH + instant * _MS).astimezone(zone)


def _instant(moment: datetime) -> int:
    return (moment - _EPOCH) // _MS


# --- cron ----------------------------------------------------------------------------------------


def _next_cron(schedule: Schedule, after: int) -> int | None:
    """The first instant later than `after` at which the clocks of the zone show a matching time.

    Times are asked for in the order of the calendar. In an hour that comes twice, the order of
    instants is another: all first passes, then all second ones. So a second pass is only taken
    when no first one can come before it.
    """
    assert schedule.cron is not None
    zone = zone_of(schedule.zone)
    second_pass: int | None = None
    try:
        here = _at(after, zone)
        # Of an hour that will come again, also what has passed already.
        again = _offset(here) - _offset(here.replace(fold=1)) if here.fold == 0 else timedelta()
        walk = _parsed(schedule.cron, here.replace(tzinfo=None, fold=0) - again)
        gap, fold = schedule.gap, schedule.fold
        if walk.hours >= _EVERY_HOUR:
            # It names no time of day, so it goes by the time that passes, and not by the clock.
            gap, fold = "skip", "both"
        for wall in walk:
            first, second = (_instant(wall.replace(tzinfo=zone, fold=n)) for n in (0, 1))
            if first > second:  # the clocks are put forward over it
                if gap == "skip":
                    continue
                first = second = _end_of_gap(wall, zone, second, first)
            if first > after:
                return first if second_pass is None else min(first, second_pass)
            if second > after and fold == "both" and second_pass is None:
                second_pass = second
    except OverflowError:
        pass  # past the year 9999
    return second_pass


def _offset(moment: datetime) -> timedelta:
    offset = moment.utcoffset()
    assert offset is not None
    return offset


def _end_of_gap(wall: datetime, zone: tzinfo, before: int, behind: int) -> int:
    """The instant at which clocks are put forward over `wall`: between these two."""
    while behind - before > 1:
        middle = (before + behind) // 2
        if _at(middle, zone).replace(tzinfo=None) < wall:
            before = middle
        else:
            behind = middle
    return behind


def _parsed(expression: str, start: datetime) -> CronSim:
    """The times of the plain calendar after `start` that match the expression, for iteration."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise UsageError(
            f"cron schedules need the cronsim package: {install_hint('cron')}"
        ) from None
    if plain := _NAMES.get(expression.strip().lower()):
        raise UsageError(f"{limits.shown(expression)} is not known here: write {plain!r}")
    fields = expression.split()
    if len(fields) != 5:
        raise UsageError(f"{limits.shown(expression)} has {len(fields)} fields; {_FORM}")
    try:
        return CronSim(expression, start)
    except CronSimError as error:
        what = str(error).removeprefix("Bad ").replace("-", " ")
        raise UsageError(
            f"{limits.shown(expression)} is not a cron expression, or is never due: its {what} "
            f"does not fit; {_FORM}"
        ) from None


_FORM = (
    "a cron expression has five: minute, hour, day of the month, month, day of the week; "
    "such as '30 9 * * MON-FRI'"
)


def _times(schedule: Schedule) -> tuple[object, ...]:
    """The fields that decide when a schedule is due."""
    return (
        schedule.cron,
        schedule.zone,
        schedule.every_ms,
        schedule.anchor,
        schedule.at,
        schedule.gap,
        schedule.fold,
    )


def _in_reach(instant: int) -> int | None:
    return instant if instant < limits.FOREVER_MS else None


def _label(schedule: Schedule) -> str:
    return f"the schedule {schedule.name!r} ({limits.shown(schedule.cron or schedule.every_ms)})"
