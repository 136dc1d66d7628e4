"""When a process looks for schedules that are due: once a second where there are any, else rarely.

Pure, but for the clock that only goes forward; safe to share between threads.
"""

from __future__ import annotations

import threading
import time

LOOK_SECONDS = 1.0
LOOK_SECONDS_IDLE = 10.0
"""Where there was no schedule: one that another process sets is noticed this late."""
AGAIN_SECONDS = 60.0
"""After a refusal, and between complaints about the same matter."""


class Watch:
    """One for all who receive over one connection: whoever comes at the right moment looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._complain_at = 0.0
        self.is_idle = True
        """No schedule was there at the last look."""

    def must_look(self) -> bool:
        """True once in a while: this caller should look for schedules that are due now."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        with self._lock:
            if now < self._look_at:
                return False
            self._look_at = now + LOOK_SECONDS
            return True

    def until_look(self) -> float:
        """Seconds until somebody should look; who waits for messages comes back then."""
        return max(self._look_at - time.monotonic(), 0.01)

    def found(self, *, any_there: bool, more_due: bool = False) -> None:
        """What the look has shown; `more_due`: there was more to fire than fits in one go."""
        with self._lock:
            self.is_idle = not any_there
            if self.is_idle:
                self._look_at = time.monotonic() + LOOK_SECONDS_IDLE
            elif more_due:
                self._look_at = time.monotonic()

    def stop_for_a_while(self) -> None:
        """Looking is not allowed here; others do it."""
        with self._lock:
            self._look_at = time.monotonic() + AGAIN_SECONDS

    def must_complain(self) -> bool:
        """True at most once a minute: what could not be fired may be told."""
        now = time.monotonic()
        with self._lock:
            if now < self._complain_at:
                return False
            self._complain_at = now + AGAIN_SECONDS
            return True
