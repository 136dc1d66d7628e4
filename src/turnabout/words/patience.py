"""How often to look while waiting for something: soon at first, then less and less often.

Hints tell when a look may pay, but some are lost, and a busy queue gives them without end. So a
look comes after a hint or at the latest after a pause that grows, and never sooner after the last
one than a share of the time waited so far. No clock in here: `now` is given, in seconds.
"""

from __future__ import annotations

HINT_SECONDS_MIN, HINT_SECONDS_MAX = 0.1, 5.0
REST_SECONDS_MIN, REST_SECONDS_MAX = 0.005, 1.0
REST_SHARE = 0.1
"""Whoever waited for ten seconds does not mind another one."""


class Patience:
    """One who waits, for `seconds` or (None) for ever."""

    def __init__(
        self, now: float, seconds: float | None, *, hint_seconds_max: float = HINT_SECONDS_MAX
    ) -> None:
        self._began = now
        self._ends = None if seconds is None else now + seconds
        self._looked = now
        self._hint_seconds_max = hint_seconds_max

    def is_over(self, now: float) -> bool:
        """Whether the time is up."""
        return self._ends is not None and now >= self._ends

    def looked(self, now: float) -> None:
        """A look begins."""
        self._looked = now

    def start_again(self, now: float) -> None:
        """It came: from here on as at the beginning."""
        if self._ends is not None:
            self._ends += now - self._began
        self._began = now

    def for_hint(self, now: float) -> float:
        """How long to wait for a hint; then look without one."""
        waited = now - self._began
        return self._at_most(min(max(waited, HINT_SECONDS_MIN), self._hint_seconds_max), now)

    def before_look(self, now: float) -> float:
        """How long to rest before the next look, hint or not."""
        share = (now - self._began) * REST_SHARE
        rest = min(max(share, REST_SECONDS_MIN), REST_SECONDS_MAX)
        return self._at_most(self._looked + rest - now, now)

    def _at_most(self, seconds: float, now: float) -> float:
        left = seconds if self._ends is None else min(seconds, self._ends - now)
        return max(left, 0.0)
