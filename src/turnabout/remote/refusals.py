"""Refusals of both colours of the store, in the same words."""

from __future__ import annotations

from typing import Any

from turnabout.words.errors import UsageError
from turnabout.words.verbs import Verb


def no_transaction() -> UsageError:
    """`within`, or a worker with `transaction=True`."""
    return UsageError(
        "a server has no transaction of yours: connect to the database itself for that"
    )


def was_closed(how: str) -> UsageError:
    """A call after `close`."""
    return UsageError(f"this connection was closed: open another by {how}")


def not_for_clients(verb: Verb[Any]) -> UsageError:
    """A verb that has no route: of the database's owner, or of a slice that works on databases."""
    return UsageError(
        f"{verb.name} works on the database itself, not on a server: name that database, "
        "sqlite:///path or postgresql://…"
    )
