"""What both colours of the store refuse, in the same words."""

from __future__ import annotations

from penstock.words.errors import UsageError


def no_transaction() -> UsageError:
    """`within`, or a worker with `transaction=True`."""
    return UsageError(
        "a server has no transaction of yours: connect to the database itself for that"
    )


def was_closed(how: str) -> UsageError:
    """A call after `close`."""
    return UsageError(f"this connection was closed: open another by {how}")
