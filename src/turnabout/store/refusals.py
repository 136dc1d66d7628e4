"""What no store of a kind can do: the errors that say so."""

from __future__ import annotations

from turnabout.words.errors import UsageError


def no_waiting() -> UsageError:
    """For a store that has joined a transaction."""
    return UsageError("a receive inside a transaction cannot wait: leave wait_seconds out")


def joined_already() -> UsageError:
    """For the same."""
    return UsageError("this handle is already in a transaction: use `within` of the queue itself")


def no_transactions() -> UsageError:
    """For a store that is a server."""
    return UsageError(
        "this store has no transactions of yours: `transaction=True` needs the database "
        "itself, not a server before it"
    )
