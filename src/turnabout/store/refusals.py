"""Errors for what a kind of store cannot do."""

from __future__ import annotations

from turnabout.words.errors import UsageError


def no_waiting() -> UsageError:
    """Error of a receive that would wait inside a transaction."""
    return UsageError("a receive inside a transaction cannot wait: leave wait_seconds out")


def joined_already() -> UsageError:
    """Error of a second `within`."""
    return UsageError("this handle is already in a transaction: use `within` of the queue itself")


def no_transactions() -> UsageError:
    """Error of a store that is reached over HTTP."""
    return UsageError(
        "this store has no transactions of yours: `transaction=True` needs the database "
        "itself, not a server before it"
    )
