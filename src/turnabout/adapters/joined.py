"""What both stores' joined connections have in common: which verbs join, and what they refuse.

A joined connection is a store for the verbs of a handle made by `queue.within`. It has no waiting
and nothing to close: the connection and its transaction are the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from turnabout.words.errors import UsageError
from turnabout.words.verbs import VOCABULARY, Verb

A = TypeVar("A")

OPEN_ONE = (
    "the connection commits each statement by itself, and no transaction is open: open one "
    "first, so that messages and rows are committed together"
)
ANOTHER_STORE = (
    "the connection is one of {}, and this queue lives in {}: hand in a connection to it"
)


def check_joins(verb: Verb[Any]) -> None:
    """Refuse a verb that has to have a transaction of its own."""
    if not verb.joins:
        names = ", ".join(sorted(kind.name for kind in VOCABULARY if kind.joins))
        raise UsageError(
            f"{verb.name} does not run in your transaction ({names} do): use the queue itself"
        )


class Joined:
    """The part of a blocking store that a joined connection does not have."""

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in the caller's transaction."""
        raise NotImplementedError

    def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """All in the caller's transaction, in this order."""
        return [self.run(verb) for verb in verbs]

    def signal(self, queue: str) -> NoReturn:
        """Refused: nobody waits while holding a transaction."""
        raise _no_waiting()

    def wait(self, queue: str, seen: int, seconds: float) -> NoReturn:
        """Refused, as `signal`."""
        raise _no_waiting()

    def within(self, connection: object) -> NoReturn:
        """Refused: it is joined."""
        raise _joined_already()

    def close(self) -> None:
        """Nothing: the connection is the caller's."""


class AsyncJoined:
    """The part of an asyncio store that a joined connection does not have."""

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in the caller's transaction."""
        raise NotImplementedError

    async def run_together(self, verbs: Sequence[Verb[Any]]) -> list[Any]:
        """All in the caller's transaction, in this order."""
        return [await self.run(verb) for verb in verbs]

    async def signal(self, queue: str) -> NoReturn:
        """Refused: nobody waits while holding a transaction."""
        raise _no_waiting()

    async def wait(self, queue: str, seen: int, seconds: float) -> NoReturn:
        """Refused, as `signal`."""
        raise _no_waiting()

    def within(self, connection: object) -> NoReturn:
        """Refused: it is joined."""
        raise _joined_already()

    async def close(self) -> None:
        """Nothing: the connection is the caller's."""


def _no_waiting() -> UsageError:
    return UsageError("nothing waits inside a transaction: receive without wait_seconds")


def _joined_already() -> UsageError:
    return UsageError(
        "this handle works in a transaction already: use `within` of the queue itself"
    )
