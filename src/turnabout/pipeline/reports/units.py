"""Numbers, instants and lengths of time as people read them; durations are the command line's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_THOUSANDS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(number: float) -> str:
    """Format a number for an axis: 12k, 1.5M, 0.25."""
    for size, letter in _THOUSANDS:
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


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


def between(begin_ms: int, end_ms: int, *, seconds: bool = False) -> str:
    """21 Nov 2026 14:05–14:10; with the day of its end only if it is another one."""
    first, last = (instant(at, seconds=seconds) for at in (begin_ms, end_ms))
    return f"{first}–{last.removeprefix(first.rpartition(' ')[0] + ' ')}"


def clock(ms: int, every_ms: int) -> str:
    """Format a time for an axis, as precise as its ticks: 14:05:30, 14:05, 21 Nov."""
    at = _utc(ms)
    if every_ms % DAY == 0 or (ms % DAY == 0 and every_ms >= MINUTE):
        return f"{at:%-d %b}"
    return f"{at:%H:%M:%S}" if every_ms < MINUTE else f"{at:%H:%M}"


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
