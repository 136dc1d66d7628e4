"""A worker's log of its messages: failures with traceback and next step, lost leases.

Queue, message id and the error's own text are logged, never a payload. A failure is an ERROR with
`exc_info`: Python shows it where no logging is configured, and tools such as Sentry collect it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback

from turnabout.words.outcomes import Blocked, Cancelled, Dead, LeaseLost, Retrying
from turnabout.words.policy import QueueSettings
from turnabout.worker.endings import Failed, printable, shown_traceback, text_of
from turnabout.worker.loop import Lease
from turnabout.worker.settler import Answer

log = logging.getLogger("turnabout.worker")


class Report:
    """The reporter of one queue's messages."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self.settings = QueueSettings()
        """The queue's, as they were a moment ago."""

    def failed(self, lease: Lease, ending: Failed, answer: Answer) -> None:
        """A handler failed, and the database has answered what becomes of the message."""
        self._log(
            logging.ERROR,
            "handler for %s failed on message %d (attempt %s): %s; %s",
            lease,
            *(self._queue, lease.receipt.id, self._attempt(lease)),
            *(text_of(ending.cause), _next(lease, answer)),
            cause=ending.cause,
        )

    def raised_late(self, lease: Lease, error: BaseException, which: str) -> None:
        """A handler raised when the message did not depend on it any more: `which` says why."""
        if isinstance(error, asyncio.CancelledError):
            return
        error = printable(error)
        self._log(
            logging.ERROR,
            "handler for %s raised on message %d, %s: %s",
            lease,
            *(self._queue, lease.receipt.id, which, text_of(error)),
            cause=error,
        )

    def unsettled(self, lease: Lease, error: BaseException) -> None:
        """The worker itself went wrong where the message was to be settled."""
        text = "something went wrong at the end of message %s of %s: %s"
        details = (lease.receipt, self._queue, text_of(error))
        self._log(logging.ERROR, text, lease, *details, cause=printable(error))

    def settled(self, lease: Lease) -> None:
        """A handler has settled its message itself: that is only told if the message died of it."""
        if lease.dead:
            self.say(logging.ERROR, "message %s of %s is dead: its handler failed it", lease)

    def say(self, level: int, text: str, lease: Lease, *details: object) -> None:
        """Log a text about a message: `%s` of it, `%s` of its queue, and the details."""
        self._log(level, text, lease, lease.receipt, self._queue, *details)

    def _log(
        self,
        level: int,
        text: str,
        lease: Lease,
        *details: object,
        cause: BaseException | None = None,
    ) -> None:
        """Filters and handlers of the log are the user's: what they raise is printed, no more."""
        trace = None if cause is None else (type(cause), cause, shown_traceback(cause))
        # For a machine to pick out.
        about = {"queue": self._queue, "receipt": str(lease.receipt)}
        try:
            log.log(level, text, *details, exc_info=trace, extra=about)
        except Exception:  # noqa: BLE001 - see above
            traceback.print_exc()

    def _attempt(self, lease: Lease) -> str:
        most = self.settings.max_attempts
        number = lease.charges + 1
        return str(number) if most is None else f"{number} of {max(number, most)}"


def _next(lease: Lease, answer: Answer) -> str:
    match answer:
        case Retrying(due_at):
            seconds = lease.seconds_until(due_at, time.monotonic())
            return f"retry in {seconds:,.1f} s" if seconds >= 0.05 else "retry at once"
        case Dead(None):
            return "dead: its queue has no dead-letter queue"
        case Dead(queue):
            return f"dead: moved to {queue}"
        case Blocked():
            return "no attempts left: its channel waits for `retry` or `cancel`"
        case Cancelled():
            return "ended as cancelled, as was requested"
        case LeaseLost(now):
            return f"not counted, as its lease was lost: the message is {now}"
        case "untold":
            return "the database could not be told: retry when the lease runs out"
        case _:
            return "the database knows, but its answer was lost"
