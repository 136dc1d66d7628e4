"""Shared by both stores' joined connections: which verbs may join, and what is refused.

A joined connection is a store for the verbs of a handle made by `queue.within`.
"""

from __future__ import annotations

from typing import Any

from turnabout.words.errors import UsageError
from turnabout.words.verbs import VOCABULARY, Verb

OPEN_ONE = (
    "the connection commits each statement by itself, and no transaction is open: open one "
    "first, so that messages and rows are committed together"
)
ANOTHER_STORE = "the connection is to {}, and this queue lives in {}: pass a connection to that"


def check_joins(verb: Verb[Any]) -> None:
    """Refuse a verb that has to have a transaction of its own."""
    if not verb.joins:
        names = ", ".join(sorted(kind.name for kind in VOCABULARY if kind.joins))
        raise UsageError(
            f"{verb.name} does not run in your transaction ({names} do): use the queue itself"
        )
