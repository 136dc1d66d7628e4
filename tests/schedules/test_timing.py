"""When schedules are due: cases with names, and a walk over every minute that knows better."""

import builtins
import zoneinfo
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.each import each
from turnabout import UsageError, message
from turnabout.timing import (
    LATE_MS,
    Firing,
    firing,
    firings,
    first_due,
    local,
    next_due,
    upcoming,
    zone_of,
)
from turnabout.words.limits import instant
from turnabout.words.schedules import Schedule, ScheduleEntry
from turnabout.words.value import replace

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # puts its clocks forward by half an hour
    "Asia/Kathmandu",  # a quarter of an hour off, never changes
    "Africa/Casablanca",  # back for the month of Ramadan, forward after it
    "UTC",
]


def schedule(**fields):
    return Schedule("s", "q", message("x"), **fields)


def cron(expression, zone="UTC", **fields):
    return schedule(cron=expression, zone=zone, **fields)


def ms(text, zone="UTC", fold=0):
    """`2027-03-28 01:30` in that zone."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round(moment.timestamp() * 1000)


def shown(instants, zone):
    return [local(i, zone).strftime("%d %H:%M%z") for i in instants]


def due(one, after, count):
    return list(islice(upcoming(one, after), count))


# --- by name -------------------------------------------------------------------------------------

SPRING, AUTUMN = ms("2027-03-28 00:00", "Europe/Berlin"), ms("2027-10-31 00:00", "Europe/Berlin")


@each(
    ("expression", "fields", "wanted"),
    [
        # 02:00 to 03:00 does not exist: then at 03:00, once, however many times were passed over.
        ("30 2 * * *", {}, ["28 03:00+0200", "29 02:30+0200"]),
        ("30 2 * * *", {"gap": "skip"}, ["29 02:30+0200", "30 02:30+0200"]),
        ("*/20 2,3 * * *", {}, ["28 03:00+0200", "28 03:20+0200", "28 03:40+0200"]),
        ("30 1-3 * * *", {}, ["28 01:30+0100", "28 03:00+0200", "28 03:30+0200"]),
        ("30 1-3 * * *", {"gap": "skip"}, ["28 01:30+0100", "28 03:30+0200"]),
        ("0 3 * * *", {}, ["28 03:00+0200", "29 03:00+0200"]),
        # Every hour is no time of day: it goes by the time that passes.
        ("30 * * * *", {}, ["28 00:30+0100", "28 01:30+0100", "28 03:30+0200"]),
    ],
)
def test_clocks_are_put_forward(expression, fields, wanted):
    one = cron(expression, "Europe/Berlin", **fields)
    assert shown(due(one, SPRING, len(wanted)), "Europe/Berlin") == wanted


@each(
    ("expression", "fields", "wanted"),
    [
        ("30 2 * * *", {}, ["31 02:30+0200", "01 02:30+0100"]),
        ("30 2 * * *", {"fold": "both"}, ["31 02:30+0200", "31 02:30+0100", "01 02:30+0100"]),
        # All first ones come before all second ones.
        (
            "*/30 2 * * *",
            {"fold": "both"},
            ["31 02:00+0200", "31 02:30+0200", "31 02:00+0100", "31 02:30+0100"],
        ),
        ("*/30 2,3 * * *", {}, ["31 02:00+0200", "31 02:30+0200", "31 03:00+0100"]),
        ("0 3 * * *", {"fold": "both"}, ["31 03:00+0100", "01 03:00+0100"]),
        (
            "30 * * * *",
            {},
            ["31 00:30+0200", "31 01:30+0200", "31 02:30+0200", "31 02:30+0100", "31 03:30+0100"],
        ),
    ],
)
def test_clocks_are_put_back(expression, fields, wanted):
    one = cron(expression, "Europe/Berlin", **fields)
    assert shown(due(one, AUTUMN, len(wanted)), "Europe/Berlin") == wanted


def test_a_day_that_a_zone_left_out():
    """Samoa went from the 29th to the 31st of December 2011."""
    one = cron("0 9 30 12 *", "Pacific/Apia")
    assert due(one, ms("2011-12-01 00:00"), 1) == [ms("2011-12-31 00:00", "Pacific/Apia")]
    skipping = cron("0 9 30 12 *", "Pacific/Apia", gap="skip")
    assert due(skipping, ms("2011-12-01 00:00"), 1) == [ms("2012-12-30 09:00", "Pacific/Apia")]


def test_leap_days():
    one = cron("0 0 29 2 *")
    assert due(one, ms("2027-01-01 00:00"), 2) == [ms("2028-02-29 00:00"), ms("2032-02-29 00:00")]
    # No leap day in 2100.
    assert due(one, ms("2096-03-01 00:00"), 1) == [ms("2104-02-29 00:00")]
    rare = cron("0 0 * 2 MON#5")  # a February with five Mondays
    assert due(rare, ms("2020-01-01 00:00"), 2) == [ms("2044-02-29 00:00"), ms("2072-02-29 00:00")]


def test_either_day_field_will_do_unless_one_is_a_star():
    day = ms("2027-01-01 00:00")  # a Friday
    assert shown(due(cron("0 0 13 * FRI"), day, 3), "UTC") == [
        "08 00:00+0000",
        "13 00:00+0000",
        "15 00:00+0000",
    ]
    assert due(cron("0 0 13 * *"), day, 1) == [ms("2027-01-13 00:00")]


def test_an_instant_inside_a_minute_is_late_for_it():
    one = cron("* * * * *")
    at = ms("2027-01-01 00:00")
    assert next_due(one, at - 1) == at
    assert next_due(one, at) == at + MINUTE
    assert next_due(one, at + 1) == at + MINUTE
    assert next_due(one, at + 59_999) == at + MINUTE


def test_an_interval_counts_from_its_anchor():
    one = schedule(every_ms=90_000, anchor=1_000_000)
    assert due(one, 0, 2) == [1_000_000, 1_090_000]
    assert next_due(one, 999_999) == 1_000_000
    assert next_due(one, 1_000_000) == 1_090_000
    assert next_due(one, 1_089_999) == 1_090_000
    assert next_due(schedule(every_ms=HOUR), ms("2027-01-01 00:01")) == ms("2027-01-01 01:00")


def test_one_off_is_due_once():
    assert due(schedule(at=5_000), 0, 9) == [5_000]
    assert next_due(schedule(at=5_000), 5_000) is None


def test_the_end_of_the_calendar_is_an_end():
    late = ms("9999-12-31 23:58")
    for zone in ("UTC", "Asia/Kathmandu", "America/New_York"):
        assert list(upcoming(cron("* * * * *", zone), late))[2:] == []
    assert next_due(cron("* * * * *"), 9_000_000_000_000_000) is None
    assert next_due(schedule(every_ms=HOUR), 9_000_000_000_000_000) is None


# --- what is refused -----------------------------------------------------------------------------


@each(
    ("expression", "says"),
    [
        ("61 * * * *", "minute"),
        ("0 24 * * *", "hour"),
        ("0 0 32 * *", "day of month"),
        ("0 0 1 13 *", "month"),
        ("0 0 * * FUN", "day of week"),
        ("0 0 31 2 *", "never due"),
        ("0 0 31 4,6 *", "never due"),
        ("* * */20 * 1L", "never due"),  # the last Monday is never the 1st or 21st
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("", "0 fields"),
        ("@daily", "write '0 0 * * *'"),
        ("@reboot", "1 fields"),
        ("*/0 * * * *", "minute"),
        ("5-1 * * * *", "minute"),
        ("٣ * * * *", "minute"),
    ],
)
def test_an_expression_that_is_none(expression, says):
    with pytest.raises(UsageError, match=says.replace("*", r"\*")):
        first_due(cron(expression), 0, None)


@given(st.text(alphabet="0123456789*/-,#LWMONJAN @²٣\t", max_size=25))
@example("0 0 L/5 * *")
@example("0 0 LW,15 * 5L")
@settings(max_examples=100, deadline=None)
def test_nothing_but_a_usage_error_comes_of_any_text(expression):
    try:
        start = first_due(cron(expression), 0, None)
    except UsageError:
        return
    assert start is not None
    assert start % MINUTE == 0


@each(
    "zone",
    [
        "",
        "Europe/Atlantis",
        "/etc/passwd",
        "../../etc/passwd",
        "Europe",
        "localtime",
        "right/UTC",
        "é",
        "a\ud800",
        "x" * 5_000,
    ],
)
def test_a_zone_that_is_none(zone):
    with pytest.raises(UsageError):
        first_due(cron("* * * * *", zone=zone), 0, None)


def test_a_machine_without_zones(monkeypatch):
    def nothing(name):
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", nothing)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    with pytest.raises(UsageError, match="pip install tzdata"):
        zone_of("Europe/Berlin")
    assert zone_of("UTC") is UTC


def test_a_machine_without_cronsim(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "cronsim":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install '\.\[cron\]'"):
        next_due(cron("* * * * *"), 0)
    assert next_due(schedule(every_ms=1_000), 0) == 1_000


def test_an_instant_is_said_with_its_zone():
    moment = datetime(2027, 1, 1, tzinfo=ZoneInfo("Asia/Kathmandu"))
    assert instant(moment, "at") == instant(ms("2026-12-31 18:15"), "at")
    for wrong in (moment.replace(tzinfo=None), "2027-01-01", 1.5, True, -1, None):
        with pytest.raises(UsageError, match="at is"):
            instant(wrong, "at")
    assert local(0, "UTC") == datetime(1970, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="9999"):
        local(9_000_000_000_000_000, "UTC")


# --- what was missed -----------------------------------------------------------------------------


def entry(one, next_at, last_at=None, now=0):
    return ScheduleEntry(one, next_at, last_at, None, 0, now)


def test_all_sends_each_up_to_a_bound():
    one = schedule(every_ms=HOUR, missed="all")
    steps = firings(entry(one, DAY), 2 * DAY, 100)
    assert [step.due_at for step in steps] == [DAY + n * HOUR for n in range(25)]
    assert not any(step.skip for step in steps)
    assert steps[-1].next_at == 2 * DAY + HOUR
    assert firings(entry(one, DAY), 2 * DAY, 10) == steps[:10]


def test_skip_drops_what_is_older_than_a_minute():
    one = schedule(every_ms=20_000, missed="skip")
    steps = firings(entry(one, DAY), DAY + HOUR + 5_000, 100)
    # An hour late: those of the last minute are sent, the others left out in one step.
    assert steps == [
        Firing(DAY, True, DAY + HOUR - 40_000),
        Firing(DAY + HOUR - 40_000, False, DAY + HOUR - 20_000),
        Firing(DAY + HOUR - 20_000, False, DAY + HOUR),
        Firing(DAY + HOUR, False, DAY + HOUR + 20_000),
    ]
    on_the_minute = firings(entry(one, DAY), DAY + HOUR, 100)
    assert on_the_minute[0] == Firing(DAY, True, DAY + HOUR - LATE_MS)
    assert len(on_the_minute) == 5
    hourly = schedule(every_ms=HOUR, missed="skip")
    assert not firing(hourly, DAY, DAY + LATE_MS).skip
    assert firing(hourly, DAY, DAY + LATE_MS + 1) == Firing(DAY, True, DAY + HOUR)


def test_a_one_off_that_was_missed():
    one = schedule(at=5_000)
    assert firings(entry(one, 5_000), DAY, 9) == [Firing(5_000, False, None)]
    skipping = replace(one, missed="skip")
    assert firings(entry(skipping, 5_000), DAY, 9) == [Firing(5_000, True, None)]


@each("next_at", [None, DAY + 1])
def test_nothing_is_due(next_at):
    assert firings(entry(schedule(every_ms=HOUR), next_at), DAY, 9) == []


# --- setting again -------------------------------------------------------------------------------


def test_a_new_schedule_starts_after_now():
    assert first_due(schedule(every_ms=HOUR), DAY, None) == DAY + HOUR
    assert first_due(schedule(at=5), DAY, None) == 5, "a one-off that is late is due at once"


def test_setting_again_keeps_what_was_missed():
    one = schedule(every_ms=HOUR)
    changed = replace(one, message=message("y"), missed="all")
    assert first_due(changed, DAY + 5, entry(one, DAY)) == DAY
    assert first_due(changed, DAY + 5, entry(one, DAY + HOUR)) == DAY + HOUR
    other = replace(one, every_ms=2 * HOUR)
    assert first_due(other, DAY + 5, entry(one, DAY)) == DAY + 2 * HOUR


def test_what_was_sent_already_is_passed_over():
    """Somebody set the schedule while somebody else fired it."""
    one = schedule(every_ms=HOUR)
    assert firings(entry(one, DAY, last_at=DAY), DAY + 5, 9) == [Firing(DAY, True, DAY + HOUR)]
    assert firings(entry(one, DAY, last_at=DAY), DAY + 2 * HOUR, 9) == [
        Firing(DAY, True, DAY + HOUR),
        Firing(DAY + HOUR, False, DAY + 3 * HOUR),
    ]


def test_a_one_off_does_not_come_twice():
    one = schedule(at=5_000)
    changed = replace(one, message=message("y"))
    assert first_due(changed, DAY, entry(one, None, last_at=5_000)) is None
    assert first_due(replace(one, at=6_000), DAY, entry(one, None, last_at=5_000)) == 6_000
    assert first_due(changed, 1_000, entry(one, 5_000)) == 5_000
