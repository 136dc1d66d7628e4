"""Durations: milliseconds in verbs and values, seconds on the wire."""

from __future__ import annotations

import math

from turnabout.words.errors import UsageError


def seconds_of(ms: int) -> float:
    """Seconds, to be read back to the very millisecond."""
    return ms / 1000


def ms_of(seconds: float) -> int:
    """Whole milliseconds, rounded up, so that nothing comes early."""
    ms = seconds * 1000
    if math.isinf(ms):
        raise UsageError(f"nothing lasts {seconds:g} seconds")
    near = round(ms)
    # A result of `seconds_of` may lack its last bit: don't take that for part of a millisecond.
    return near if math.isclose(ms, near, rel_tol=1e-15, abs_tol=1e-6) else math.ceil(ms)
