"""Retries of tasks that raised."""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass
from typing import Any

from turnabout.words import limits
from turnabout.words.errors import UsageError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exceptions that are worth another attempt, the number of attempts, and the pauses.

    on:          classes of exceptions; any other one ends the task at once, as `GiveUp` does.
    attempts:    at most so many in all, crashes included; None: as the queue's `max_attempts`
                 says. A queue that the worker makes allows what its tasks ask for.
    seconds:     the pause after the first failure, which doubles with each one; None: the queue's
                 back-off.
    max_seconds: it grows no longer than this.
    """

    on: tuple[type[BaseException], ...] = (Exception,)
    attempts: int | None = None
    seconds: float | None = None
    max_seconds: float = 3600.0

    def __post_init__(self) -> None:
        classes: Any = self.on  # as a user may have it
        if not all(inspect.isclass(one) and issubclass(one, BaseException) for one in classes):
            raise UsageError("Retry(on=(…)) takes classes of exceptions")
        limits.optional_whole(self.attempts, "attempts", 1, limits.INTEGER_MAX)
        if self.seconds is not None:
            limits.milliseconds(self.seconds, "seconds", limits.DELAY_SECONDS_MAX)
        limits.milliseconds(self.max_seconds, "max_seconds", limits.DELAY_SECONDS_MAX)

    def allows(self, error: BaseException, charged: int) -> bool:
        """Whether there is another attempt after this error; `charged`: failures and crashes
        before this one.
        """
        more = self.attempts is None or charged + 1 < self.attempts
        return more and isinstance(error, self.on)

    def pause(self, failures: int) -> float | None:
        """Seconds before the next attempt, after so many failures before this one; a tenth more or
        less, so that what failed together does not come back together.
        """
        if self.seconds is None:
            return None
        grown = min(self.seconds * 2.0 ** min(failures, 60), self.max_seconds)
        return grown * random.uniform(0.9, 1.1)  # noqa: S311 - jitter, no secret
