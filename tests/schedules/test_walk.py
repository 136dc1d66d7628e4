"""Due times against a walk over every minute, which knows better."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import cycle, pairwise, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedules.test_timing import DAY, HOUR, MINUTE, ZONES, cron, ms
from turnabout.timing import next_due, upcoming


class Minute(NamedTuple):
    at: int
    wall: datetime
    fold: int
    passed_over: tuple[datetime, ...]
    """Times that the clocks were put forward over, right before this."""


def minutes(zone, start, end):
    """Every minute between two instants, as the clocks of a zone show it."""
    tz = ZoneInfo(zone)
    before = None
    for at in range(start, end, MINUTE):
        moment = datetime.fromtimestamp(at // 1000, tz)
        wall = moment.replace(tzinfo=None, fold=0)
        passed_over = ()
        if before is not None and wall - before > timedelta(minutes=1):
            count = (wall - before) // timedelta(minutes=1)
            passed_over = tuple(before + timedelta(minutes=n) for n in range(1, count))
        yield Minute(at, wall, moment.fold, passed_over)
        before = wall


@dataclass(frozen=True)
class Fields:
    """A cron expression as the sets that it stands for; None is a star."""

    minutes: frozenset[int] | None
    hours: frozenset[int] | None
    days: frozenset[int] | None = None
    months: frozenset[int] | None = None
    weekdays: frozenset[int] | None = None

    def __str__(self):
        fields = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join("*" if f is None else ",".join(map(str, sorted(f))) for f in fields)

    def fits(self, wall):
        return (
            (self.minutes is None or wall.minute in self.minutes)
            and (self.hours is None or wall.hour in self.hours)
            and (self.months is None or wall.month in self.months)
            and self._fits_day(wall)
        )

    def _fits_day(self, wall):
        day = self.days is None or wall.day in self.days
        weekday = self.weekdays is None or wall.isoweekday() % 7 in self.weekdays
        if self.days is None or self.weekdays is None:
            return day and weekday
        return day or weekday

    def walk(self, seen, gap, fold):
        """The due times among those minutes."""
        if self.hours in (None, frozenset(range(24))):
            gap, fold = "skip", "both"
        return [
            m.at
            for m in seen
            if (self.fits(m.wall) and (m.fold == 0 or fold == "both"))
            or (m.passed_over and gap == "after" and any(map(self.fits, m.passed_over)))
        ]


@cache
def changes(zone):
    """Instants, each within three hours after a change of the clocks of a zone."""
    tz = ZoneInfo(zone)
    times = range(ms("2020-01-01 00:00") // 1000, ms("2036-01-01 00:00") // 1000, 3 * 3600)
    offsets = [(at, datetime.fromtimestamp(at, tz).utcoffset()) for at in times]
    return [b[0] * 1000 for a, b in pairwise(offsets) if a[1] != b[1]] or [offsets[0][0] * 1000]


def some(least, most, size):
    return st.none() | st.frozensets(st.integers(least, most), min_size=1, max_size=size)


FIELDS = st.builds(Fields, some(0, 59, 4), some(0, 5, 4) | some(0, 23, 24))
DAYS = st.builds(
    Fields, some(0, 59, 4), some(0, 23, 4), some(1, 28, 5), some(1, 12, 6), some(0, 6, 3)
)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("zone", ZONES)
@given(
    FIELDS | DAYS, st.data(), st.sampled_from(["after", "skip"]), st.sampled_from(["first", "both"])
)
@settings(max_examples=30, deadline=None)
def test_around_a_change_of_clocks(zone, fields, data, gap, fold):
    middle = data.draw(st.sampled_from(changes(zone)))
    seen = list(minutes(zone, middle - 8 * HOUR, middle + 30 * HOUR))
    wanted = [at for at in fields.walk(seen, gap, fold) if at > middle - 7 * HOUR]
    one = cron(str(fields), zone, gap=gap, fold=fold)
    got = list(takewhile(lambda at: at <= seen[-1].at, upcoming(one, middle - 7 * HOUR)))
    assert got == wanted
    # From anywhere in between, the next one is the same.
    after = data.draw(st.integers(middle - 4 * HOUR, middle + 4 * HOUR))
    following = [at for at in wanted if at > after]
    if following:
        assert next_due(one, after) == following[0]


def spans(zone):
    """Of 2028: all of it where clocks are oddest, elsewhere the days in which something happens."""
    start, end = ms("2028-01-01 00:00"), ms("2029-01-01 00:00")
    if zone == "Africa/Casablanca":
        return [(start, end)]
    turns = [at for at in changes(zone) if start < at < end]
    turns += [ms("2028-02-29 12:00"), ms("2028-12-31 12:00")]
    return [(at - 3 * DAY, at + 3 * DAY) for at in turns]


@pytest.mark.slow
@pytest.mark.parametrize(
    "zone", [*ZONES[:1], *(pytest.param(zone, marks=pytest.mark.long) for zone in ZONES[1:])]
)
def test_over_a_leap_year(zone):
    dice = random.Random(zone)

    def some_of(most, size, least=0):
        return frozenset(dice.sample(range(least, most), size))

    policies = cycle([("after", "first"), ("skip", "both"), ("after", "both"), ("skip", "first")])
    months = frozenset({3, 4, 10, 11})  # of most changes
    for start, end in spans(zone):
        fields = [Fields(some_of(60, 1), None, None, months)]
        fields += [Fields(some_of(60, 2), some_of(24, n)) for n in (1, 2)]
        fields += [Fields(some_of(60, 1), some_of(24, 23), None, months) for _ in range(2)]
        fields += [Fields(some_of(60, 1), some_of(4, 2), some_of(29, 3, 1), None, some_of(7, 1))]
        fields += [Fields(some_of(60, 1), None, frozenset({29, 31}), some_of(13, 5, 1))]
        seen = list(minutes(zone, start, end))
        last = seen[-1].at
        for one in fields:
            gap, fold = next(policies)
            wanted = [at for at in one.walk(seen, gap, fold) if at > start]
            got = []
            for at in upcoming(cron(str(one), zone, gap=gap, fold=fold), start):
                if at > last:
                    break
                got.append(at)
            assert got == wanted
            assert all(a < b for a, b in pairwise(got))
