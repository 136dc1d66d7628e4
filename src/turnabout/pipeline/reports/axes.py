"""Scales of charts, and the round values beside an axis. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from turnabout.pipeline.reports.units import DAY, HOUR, MINUTE, SECOND

TIME_TICKS: Final = (
    *(10, 20, 50, 100, 200, 500),
    *(n * unit for unit in (SECOND, MINUTE) for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Lengths that a clock and a calendar divide into."""

DURATION_TICKS: Final = (
    *(1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR),
    *(n * DAY for n in (1, 10, 100, 1000)),
)
"""Each about ten times the one before: a wait may be a thousand times another one."""


@dataclass(frozen=True)
class Scale:
    """A scale from values to positions: `low` is at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Return a value's position; values beyond an end lie at it."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = (math.log10(max(v, 1e-9)) for v in (low, high, value))
        part = (value - low) / (high - low) if high > low else 0.0
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)


def linear(high: float, start: float, end: float, most: int = 5) -> Scale:
    """Make a scale from 0 to at least `high`, with round ticks: 1, 2 or 5 with zeros."""
    high = high if high > 0 else 1.0
    every = 10.0 ** math.floor(math.log10(high / most))
    every = next(every * n for n in (1, 2, 5, 10, 20) if high / (every * n) <= most)
    number = math.ceil(high / every - 1e-9)
    return Scale(0.0, every * number, start, end, tuple(every * n for n in range(number + 1)))


def durations(low: float, high: float, start: float, end: float) -> Scale:
    """Make a logarithmic scale of milliseconds."""
    bottom = max((t for t in DURATION_TICKS if t <= low), default=1)
    top = next((t for t in DURATION_TICKS if t >= high and t > bottom), 2 * DURATION_TICKS[-1])
    inside = [float(t) for t in DURATION_TICKS if bottom <= t <= top]
    ticks = tuple(inside[:: 2 if len(inside) > 6 else 1])
    return Scale(bottom, top, start, end, ticks, log=True)


def time(first_ms: int, until_ms: int, start: float, end: float, most: int = 6) -> Scale:
    """Instants, with ticks where clocks and calendars have them."""
    every = step_of(until_ms - first_ms, most)
    begin = math.ceil(first_ms / every) * every
    ticks = tuple(float(t) for t in range(begin, until_ms + 1, every))
    return Scale(first_ms, until_ms, start, end, ticks)


def step_of(length_ms: int, most: int = 96) -> int:
    """The shortest step of time that fits at most `most` times into a length."""
    return next((t for t in TIME_TICKS if length_ms / t <= most), TIME_TICKS[-1])
