"""Errors of calls. Expected outcomes, such as a full channel, are in `outcomes`.

    TurnaboutError
    ├── UsageError (ValueError)   should not have been made; nothing happened
    │   └── QueueNotFound         no queue of that name
    ├── Forbidden                 the credential or the file mode does not allow it
    │   └── Unauthorized          a server does not know who asks
    ├── Refused                   one of an all-or-none transaction was refused; nothing happened
    ├── QuotaExceeded             a namespace would hold more than its quota
    ├── Unavailable               did not happen; safe to repeat
    │   ├── Busy                  the writer or a lock was not free in time
    │   ├── Disconnected          the database cannot be reached
    │   ├── StorageFull           the disk is full: nothing was written
    │   └── TooManyRequests       more a second than the namespace may; says when to repeat
    ├── Uncertain                 the answer was lost; it may have happened
    ├── WrongVersion              library and database are apart; says the command to run
    └── BrokenInvariant           a bug in Turnabout; says what to report

Each class has a stable `code` and says whether a plain repeat is safe (`retryable`).
"""

from __future__ import annotations


class TurnaboutError(Exception):
    """Base of every exception that Turnabout raises on purpose."""

    code: str = "error"
    retryable: bool = False


class UsageError(TurnaboutError, ValueError):
    """The call is wrong in itself: a type, a size, a name. Nothing happened; fix the program."""

    code = "usage"


class QueueNotFound(UsageError):
    """No queue has that name. Sending creates one; so does `queue.create()`."""

    code = "queue_not_found"

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"there is no queue {queue!r}: create it (`queue.create()`, `turnabout queue create "
            f"{queue}`) or send the first message to it"
        )
        self.queue = queue


class Forbidden(TurnaboutError):
    """Not allowed: a read-only file, a role without the right, a token without the scope. Nothing
    happened.
    """

    code = "forbidden"


class Unauthorized(Forbidden):
    """A server wants a token, and there was none, or one that is unknown, revoked or expired."""

    code = "unauthorized"


class Refused(TurnaboutError):
    """One verb of an all-or-none transaction was refused, so nothing happened. The text says which,
    and its outcome.
    """

    code = "refused"


class QuotaExceeded(TurnaboutError):
    """A send would pass the namespace's `max_messages` or `max_bytes`: nothing of it was stored.

    Finish or purge some messages, or have the quota raised (`turnabout namespace`); then repeat.
    """

    code = "quota_exceeded"


class Unavailable(TurnaboutError):
    """The call did not happen. Repeating it is safe."""

    code = "unavailable"
    retryable = True


class Busy(Unavailable):
    """The database's writer or a lock was not free in time. Nothing happened; repeat later."""

    code = "busy"


class Disconnected(Unavailable):
    """The database could not be reached. Nothing happened; repeat when it is back."""

    code = "disconnected"


class StorageFull(Unavailable):
    """The disk is full, so nothing was written. Free some space, then repeat."""

    code = "storage_full"


class TooManyRequests(Unavailable):
    """More requests a second than the namespace may make. Nothing happened; repeat after
    `retry_after_seconds`.
    """

    code = "too_many_requests"

    def __init__(self, text: str, retry_after_seconds: float = 1.0) -> None:
        super().__init__(text)
        self.retry_after_seconds = retry_after_seconds


class Uncertain(TurnaboutError):
    """The connection broke before the answer came: the call may have happened.

    A send that is repeated may arrive twice. An ack may be repeated: if the first one happened,
    the second answers `LeaseLost`, and nothing is lost.
    """

    code = "uncertain"


class WrongVersion(TurnaboutError):
    """The database's schema and this library do not fit; the message names the command to run."""

    code = "wrong_version"


class BrokenInvariant(TurnaboutError):
    """An impossible state was seen. Please report it with the message's text."""

    code = "broken_invariant"
