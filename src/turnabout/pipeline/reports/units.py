"""Numbers, durations and instants as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_THOUSANDS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: float) -> str:
    """12,345."""
    return f"{number:,.0f}"


def short(number: float) -> str:
    """Format a number for an axis: 12k, 1.5M, 0.25."""
    for size, letter in _THOUSANDS:
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def duration(ms: float | None) -> str:
    """Milliseconds: 350 ms, 1.23 s, 42 s, 2 min 5 s, 3 h 4 min, 2 d 3 h; a dash for none."""
    if ms is None:
        return "–"
    if ms < 10 and ms != int(ms):
        return f"{ms:.1f} ms"
    if round(ms) < SECOND:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / SECOND:.{2 if ms < 9_995 else 1}f}".rstrip("0").rstrip(".") + " s"
    seconds = round(ms / SECOND)
    for size, name, small, small_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // small
            return f"{seconds // size} {name}" + (f" {rest} {small_name}" if rest else "")
    return f"{seconds} s"


def span(ms: int) -> str:
    """A length of time in whole words: second, minute, 5 minutes, hour, 6 hours, day."""
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        if ms % size == 0:
            number = ms // size
            return name if number == 1 else f"{number} {name}s"
    return f"{ms} ms"


def share(part: float | None) -> str:
    """A part of one: 96.2 %, <0.1 %, 100 %; never 100 % or 0 % unless it is so."""
    if part is None:
        return "–"
    percent = part * 100
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.1f}".removesuffix(".0") + " %"


def instant(ms: int, *, seconds: bool = False) -> str:
    """21 Nov 2026 14:05, in UTC."""
    return f"{_utc(ms):%-d %b %Y %H:%M}" + (f":{_utc(ms):%S}" if seconds else "")


def clock(ms: int, every_ms: int) -> str:
    """Format a time for an axis, as precise as its ticks: 14:05:30, 14:05, 21 Nov."""
    at = _utc(ms)
    if every_ms % DAY == 0 or (ms % DAY == 0 and every_ms >= MINUTE):
        return f"{at:%-d %b}"
    return f"{at:%H:%M:%S}" if every_ms < MINUTE else f"{at:%H:%M}"


def step(at_ms: int, step_ms: int) -> str:
    """A step of a time axis, for a hover title: 21 Nov 14:05 – 14:10."""
    end = at_ms + step_ms
    if step_ms % DAY == 0:
        return f"{_utc(at_ms):%-d %b %Y}"
    form = "%H:%M:%S" if step_ms < MINUTE else "%H:%M"
    return f"{_utc(at_ms):%-d %b} {_utc(at_ms).strftime(form)}–{_utc(end).strftime(form)}"


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
